# SPDX-License-Identifier: Apache-2.0
"""The workloads that the authors of TimelyLLM published: when bursts come, and which tasks each has.

Facts from ``dataset/data_sample_[12]_config.json`` of their artifact (github.com/MarkoMile/TimelyLLM, commit
10c6761, CC BY 4.0); times are rounded to milliseconds. How long a robot takes for each skill is from its
``data_sample_1.json``.
"""

from dataclasses import dataclass

from llm_planner.core.request import Urgency
from llm_planner_lab.simulation.tasks import TASKS
from llm_planner_lab.simulation.trace import Trace, TraceRequest
from llm_planner_lab.simulation.workload import DYNAMIC_TOKENS, PLANNING_S, STATIC_TOKENS

REQUEST_GAP_S = 0.001
SKILLS: tuple[tuple[int, str, tuple[float, ...]], ...] = (
    (1, "?s(cat){g(cat);->True;}->False;", (3.7132 + 2.4613, 0.0)),
    (2, "?iv(keys)|iv(wallet){l('yes');->True;}l('no');->False;", (0.001, 0.001, 0.0)),
    (3, "mu(60);?iv(book){tp();->True;}->False;", (2.4995, 0.001, 0.0)),
    (4, "md(60);?iv(toy){g(toy);->True;}->False;", (2.5944, 0.001 + 2.7066, 0.0)),
    (5, "?s(scissors){g(scissors);->True;}->False;", (1.5563 + 2.4613, 0.0)),
    (7, "mr(100);mf(100);", (2.1086, 2.3891)),
    (8, "mu(100);ml(100);", (2.5866, 2.192)),
    (6, "d(3);mf(100);", (3.0, 1.9777)),
)
"""By the artifact's number of a task: its number in Table 2, a plan of the skills that it has there, and how long the
robot takes for each statement."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A published workload.

    Attributes:
        num_robots: Agents.
        bursts: When each burst begins, in seconds, and the artifact's numbers of its tasks, a digit each.
    """

    num_robots: int
    bursts: tuple[tuple[float, str], ...]


SAMPLE_1 = Sample(
    42,
    (
        (33.945, "4706560632133"),
        (37.012, "62773142176103"),
        (44.922, "51276162723"),
        (45.693, "6"),
        (64.907, "770530345"),
        (70.39, "55"),
        (72.493, "716454"),
        (73.269, "6554"),
        (82.521, "77517477"),
        (87.047, "401360"),
        (89.128, "570544642760757"),
        (107.866, "743006006404046"),
        (112.094, "37423355171732"),
        (116.133, "3323573211013030"),
        (117.413, "5663065302452471"),
        (117.511, "7316"),
        (118.08, "73"),
        (120.239, "3424"),
        (126.812, "37350"),
        (138.135, "6142514720"),
        (141.712, "35434771557"),
        (146.269, "3771"),
        (155.12, "070055"),
        (155.287, "0051221573445"),
        (156.802, "65250526465306"),
        (163.054, "462"),
        (168.454, "25"),
        (169.571, "5232477407332537"),
        (170.267, "6746446"),
        (175.465, "6634"),
        (176.882, "720660"),
        (178.32, "4676312303"),
        (178.788, "103"),
        (186.408, "460215444656"),
        (188.47, "3441633160623"),
        (189.346, "40334"),
        (194.169, "5670102774122"),
        (197.932, "2214457"),
        (203.749, "70660664511573"),
        (218.485, "2674502"),
        (224.634, "7776277102717"),
        (228.843, "770265726732"),
        (231.404, "7165320453635756"),
        (233.485, "127110214332420"),
        (240.798, "7474611124426"),
        (247.462, "36013117706"),
        (247.845, "331113543"),
        (249.201, "323176703"),
        (255.178, "7"),
        (261.539, "6777534"),
        (261.889, "25"),
        (261.987, "5564"),
        (262.434, "1406700336202"),
        (266.247, "0527156234"),
        (270.603, "2353"),
        (272.25, "530640"),
        (273.642, "316"),
        (288.312, "5632326"),
        (290.363, "52"),
        (292.901, "40232"),
        (293.914, "620604143150477"),
        (301.986, "764272551"),
        (302.948, "3"),
    ),
)
"""Up to 16 tasks at once: WID 2 of Table 3."""
SAMPLE_2 = Sample(
    25,
    (
        (35.36, "207512"),
        (35.447, "27134006"),
        (37.553, "6761572"),
        (38.101, "271333"),
        (50.096, "3"),
        (52.655, "621"),
        (58.924, "66"),
        (59.389, "37447"),
        (64.611, "553067"),
        (65.413, "41050"),
        (71.064, "44"),
        (71.689, "5"),
        (76.406, "1046"),
        (76.435, "31456256"),
        (85.435, "012770"),
        (88.314, "533247"),
        (93.378, "45704526"),
        (94.249, "744423"),
        (96.002, "4373023"),
        (97.096, "2"),
        (99.484, "173436"),
        (102.628, "575445"),
        (103.552, "73110"),
        (117.134, "0"),
        (117.251, "5444"),
        (118.248, "0714732"),
        (118.664, "74476431"),
        (120.965, "46"),
        (130.561, "121"),
        (132.36, "026257"),
        (134.29, "275133"),
        (140.555, "3762"),
        (140.594, "1"),
        (145.772, "507343"),
        (149.221, "6004266"),
        (149.664, "43"),
        (151.527, "43723"),
        (162.551, "76027"),
        (164.49, "4"),
        (166.422, "26402503"),
        (170.553, "725245"),
        (174.619, "72064"),
        (176.121, "512"),
        (176.206, "20"),
        (193.745, "056"),
        (194.719, "36532"),
        (205.99, "76017"),
        (206.308, "372413"),
        (207.921, "27222"),
        (219.549, "1"),
        (222.211, "17735174"),
        (222.93, "43724"),
        (229.385, "6613045"),
        (230.691, "732"),
        (233.595, "0522"),
        (237.709, "006773"),
        (239.923, "72"),
        (240.369, "3700367"),
        (241.343, "6032"),
        (241.629, "726"),
        (252.958, "24727"),
        (253.237, "7052"),
        (257.318, "7"),
        (257.398, "3131"),
    ),
)
"""Up to 8 tasks at once: WID 1, the workload of Fig. 5(a)."""


def trace(sample: Sample) -> Trace:
    """Returns a workload as a trace.

    The artifact does not say which robot gets which task: it is the one that is free for longest.
    """
    free_at_s = dict.fromkeys(range(sample.num_robots), 0.0)
    requests: list[TraceRequest] = []
    for burst_s, numbers in sample.bursts:
        for place, number in enumerate(map(int, numbers)):
            task_number, plan, durations_s = SKILLS[number]
            task, time_s = TASKS[task_number], burst_s + place * REQUEST_GAP_S
            robot = min(free_at_s, key=free_at_s.__getitem__)
            free_at_s[robot] = max(free_at_s[robot], time_s) + PLANNING_S + sum(durations_s)
            requests.append(
                TraceRequest(
                    time_s=time_s,
                    request_id=f"r{len(requests):05d}",
                    robot_id=f"robot_{robot}",
                    robot_model=task.robot_model,
                    task=task.number,
                    urgency="urgent" if task.urgency is Urgency.URGENT else "normal",
                    time_utility=task.urgency.time_utility,
                    instruction=task.title,
                    plan=plan,
                    num_static_tokens=STATIC_TOKENS,
                    num_dynamic_tokens=sum(DYNAMIC_TOKENS) // 2,
                    durations_s=durations_s,
                )
            )
    return Trace(name="timelyllm", duration_s=sample.bursts[-1][0], requests=tuple(requests))
