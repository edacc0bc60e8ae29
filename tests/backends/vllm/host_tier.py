# SPDX-License-Identifier: Apache-2.0
"""A place for offloaded KV on machines without a GPU, where vLLM has none: what its own connector says is copied."""

from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

WORKERS = []
"""Those that vLLM had made in this process, the latest last."""

SLOW_POLLS = 3
"""How often the connector asks until a copy is called done, as one from a GPU would be: later than the step."""


def host_tier(num_bytes):
    """Returns what has vLLM's own connector offload all KV, prompts and what was written, to the tier below."""
    extra = {
        "cpu_bytes_to_use": num_bytes,
        "offload_prompt_only": False,
        "spec_name": HostTierSpec.__name__,
        "spec_module_path": HostTierSpec.__module__,
    }
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


def num_loads(worker):
    """Returns how often requests took KV from the tier; runs in a worker of vLLM."""
    return WORKERS[-1].num_loads


class HostTierWorker(OffloadingWorker):
    """Copies blocks between the cache of vLLM and as many bytes next to it.

    Args:
        caches: Of vLLM, each of shape (num_blocks, bytes of a block).
        num_chunks: Blocks of the tier.

    Attributes:
        num_loads: How often requests took KV from here.
    """

    def __init__(self, caches, num_chunks):
        self._caches = [tensor.tensor for tensor in caches.tensors]
        self._tier = [cache.new_zeros((num_chunks, cache.shape[1])) for cache in self._caches]
        self._unfinished = {}
        self.num_loads = 0

    def submit_store(self, job_id, src_spec, dst_spec):
        return self._copy(job_id, self._caches, src_spec, self._tier, dst_spec)

    def submit_load(self, job_id, src_spec, dst_spec):
        self.num_loads += 1
        return self._copy(job_id, self._tier, src_spec, self._caches, dst_spec)

    def _copy(self, job_id, sources, source, targets, target):
        for one, other in zip(sources, targets, strict=True):
            other[target.block_ids.tolist()] = one[source.block_ids.tolist()]
        self._unfinished[job_id] = SLOW_POLLS
        return True

    def get_finished(self):
        self._unfinished = {job: left - 1 for job, left in self._unfinished.items()}
        finished = [job for job, left in self._unfinished.items() if left <= 0]
        for job in finished:
            del self._unfinished[job]
        return [TransferResult(job_id=job, success=True) for job in finished]

    def wait(self, job_ids):
        self._unfinished.update(dict.fromkeys(self._unfinished.keys() & job_ids, 0))


class HostTierSpec(CPUOffloadingSpec):
    """vLLM's own, which refuses to make a worker without a GPU."""

    def get_worker(self, kv_caches):
        WORKERS.append(HostTierWorker(kv_caches, self.num_chunks))
        return WORKERS[-1]
