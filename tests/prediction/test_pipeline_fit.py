# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.prediction.pipeline_fit import LinkSample, StageSample, fit_pipeline_times

TRUE = PipelineTimes(
    compute_base_s=0.016,
    compute_per_token_s=2.4e-4,
    compute_per_kv_token_s=2e-7,
    link_latency_s=1e-3,
    link_per_token_s=1.7e-3,
)


def samples(noise=0.0, seed=1):
    rng = random.Random(seed)
    sizes = [(rng.randint(1, 512), rng.randint(0, 20_000)) for _ in range(60)]
    stages = [StageSample(n, kv, TRUE.computation_s(n, kv) * rng.gauss(1, noise)) for n, kv in sizes]
    links = [LinkSample(n, TRUE.communication_s(n) * rng.gauss(1, noise)) for n, _ in sizes]
    return stages, links


def test_exact_samples_give_the_coefficients_back():
    fitted = fit_pipeline_times(*samples())
    for name in TRUE.__dataclass_fields__:
        assert getattr(fitted, name) == pytest.approx(getattr(TRUE, name), rel=1e-6)


def test_noisy_samples_give_times_that_are_near():
    fitted = fit_pipeline_times(*samples(noise=0.05))
    for num_tokens, kv_tokens in ((32, 0), (64, 5000), (512, 20_000)):
        assert fitted.computation_s(num_tokens, kv_tokens) == pytest.approx(
            TRUE.computation_s(num_tokens, kv_tokens), rel=0.05
        )
        assert fitted.communication_s(num_tokens) == pytest.approx(TRUE.communication_s(num_tokens), rel=0.05)


def test_without_messages_sending_is_free():
    assert fit_pipeline_times(samples()[0]).communication_s(1000) == 0.0


@pytest.mark.parametrize(
    ("stages", "links"),
    [([], []), ([StageSample(4, 0, 0.1)] * 3, []), (samples()[0], [LinkSample(4, 0.1), LinkSample(4, 0.2)])],
)
def test_samples_of_one_size_are_refused(stages, links):
    with pytest.raises(PlannerError, match="two sizes") as error:
        fit_pipeline_times(stages, links)
    assert error.value.code is ErrorCode.INVALID_CONFIG
