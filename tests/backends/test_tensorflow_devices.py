"""Which devices TensorFlow takes, and what it says where they are not there; TensorFlow and NVML are played."""

from types import SimpleNamespace

import pytest
from backends.scenario import request_for

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.tensorflow import take_devices
from whichdevice.measure.machine.devices import DeviceFacts

NO_KERNEL = (
    "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered to support Op "
    "'ConfigureDistributedTPU' used by {{node ConfigureDistributedTPU}} with these attrs: []\nRegistered devices: [CPU]"
)


class OpError(Exception):
    pass


class Played(SimpleNamespace):
    """As much of TensorFlow as taking devices needs, with so many GPUs and TPU cores."""

    def __init__(self, gpus: int = 0, cores: int = 0, cuda: bool = True) -> None:
        def initialise(cluster: str) -> None:
            if not cores:
                raise OpError(NO_KERNEL)

        def listed(kind: str) -> list[SimpleNamespace]:
            return [SimpleNamespace(name=f"/device:{kind}:{i}") for i in range({"GPU": gpus, "TPU": cores}[kind])]

        build = {"is_cuda_build": cuda, "cuda_version": "12.5.1", "cudnn_version": "9"}
        super().__init__(
            __version__="2.21.0",
            errors=SimpleNamespace(OpError=OpError),
            config=SimpleNamespace(list_logical_devices=listed),
            sysconfig=SimpleNamespace(get_build_info=lambda: build),
            distribute=SimpleNamespace(cluster_resolver=SimpleNamespace(TPUClusterResolver=lambda name: name)),
            tpu=SimpleNamespace(experimental=SimpleNamespace(initialize_tpu_system=initialise)),
        )


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    played = SimpleNamespace(absent=None)
    played.absent_reason = lambda replicas: played.absent
    played.describe = lambda: DeviceFacts(driver="NVIDIA 470.57 (CUDA 11.4)")
    monkeypatch.setattr("whichdevice.measure.backends.tensorflow.gpu", played)
    return played


def test_a_driver_too_old_is_named_with_the_cuda_that_the_build_needs(nvml: SimpleNamespace) -> None:
    with pytest.raises(StudyError) as error:
        take_devices(Played(), request_for(kind="gpu", device="mine"))
    assert str(error.value) == (
        "mine: TensorFlow 2.21.0 finds 0 of 1 GPUs with driver NVIDIA 470.57 (CUDA 11.4); it is built for CUDA 12.5.1 "
        "and cuDNN 9: take a driver of that CUDA or newer, or CUDA's libraries "
        "(make study ENV=gpu installs one that fits)"
    )


def test_a_build_without_cuda_and_a_host_without_gpus_are_said_to_be_that(nvml: SimpleNamespace) -> None:
    with pytest.raises(StudyError, match=r"^mine: TensorFlow 2\.21\.0 is built without CUDA; make study ENV=gpu "):
        take_devices(Played(cuda=False), request_for(kind="gpu", device="mine"))
    nvml.absent = "1 GPU found on this host, 2 replicas asked"
    with pytest.raises(StudyError, match=r"^mine: 1 GPU found on this host, 2 replicas asked$"):
        take_devices(Played(gpus=1), request_for(kind="gpu", device="mine", replicas=2))


def test_a_missing_tpu_is_one_line() -> None:
    with pytest.raises(StudyError) as error:
        take_devices(Played(), request_for(kind="tpu", device="mine"))
    assert str(error.value) == (
        "mine: TensorFlow 2.21.0 cannot use a TPU here (TPUs not found in the cluster. Failed in initialization); it "
        "needs a TPU VM and tensorflow-tpu: make study ENV=tpu installs one that fits"
    )
    with pytest.raises(StudyError, match=r"^mine: 4 TPU cores found on this host, 8 asked$"):
        take_devices(Played(cores=4), request_for(kind="tpu", device="mine", replicas=8))
