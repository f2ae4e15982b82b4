"""PyTorch's own tests of process groups as a class of this back end; ``BACKEND`` and ``WORLD_SIZE`` say of what."""

from torch.testing._internal.common_distributed import DistTestCases

for known in DistTestCases.backend_feature.values():
    if "gloo" in known:  # what torch's tests ask of gloo by its name, they ask of us
        known.add("p4reduce")

from torch.testing._internal.distributed import distributed_test as own  # noqa: E402  (it looks at that when imported)


class TestOverSwitches(own.TestDistBackend, own.DistributedTest._DistTestBase):
    """All of them, each in processes that are spawned."""

    def setUp(self):
        """As torch's own class for backends that can be spawned has it."""
        super().setUp()
        self._spawn_processes()
