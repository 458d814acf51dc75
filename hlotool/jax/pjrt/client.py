"""The client, its devices and memories, and the topology: what JAX asks for once.

All of them are blocks of words in memory whose addresses JAX passes around; the first word of a device is its memory,
and that of a memory its device, which is what the native code looks at.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import field
from typing import Any

from hlotool.jax.pjrt.interface import Structure, make
from hlotool.jax.pjrt.native import pointer
from hlotool.jax.pjrt.table import Function, PjrtError
from hlotool.lazy_dataclass import dataclass
from hlotool.version import __version__

__all__ = ["CLIENTS", "Client", "Device", "Pinned", "client_functions", "device_at", "named_values"]

PLATFORM = "cpu"
_VERSION = f"hlotool {__version__}"
_KINDS = ("device", "pinned_host", "unpinned_host")  # JAX's names; all of it is memory of this process
_NAMES = ("CpuDeviceMemory", "PinnedHostMemory", "UnpinnedHostMemorySpace")


class Pinned:
    """Bytes, words and lists of words that stay where they are."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def text(self, text: str | bytes) -> tuple[int, int]:
        """The address of a text, and its size."""
        data = text.encode() if isinstance(text, str) else text
        block = ctypes.create_string_buffer(data, len(data) + 1)
        self._kept.append(block)
        return ctypes.addressof(block), len(data)

    def words(self, words: Any, kind: Any = ctypes.c_uint64) -> int:
        """The address of numbers."""
        block = (kind * max(len(words), 1))(*words)
        self._kept.append(block)
        return ctypes.addressof(block)

    def keep(self, value: object) -> None:
        """Keep something alive."""
        self._kept.append(value)


def named_values(pinned: Pinned, values: dict[str, Any]) -> tuple[int, int]:
    """An array of PJRT's named values, and how many: texts, integers, floats, lists of integers."""
    blocks = []
    for name, value in values.items():
        memory, item = make("struct NamedValue")
        item.name, item.name_size = pinned.text(name)
        item.value_size = 1
        if isinstance(value, str):
            item.type = 0
            item.value, item.value_size = pinned.text(value)
        elif isinstance(value, int):
            item.type, item.value = 1, value
        elif isinstance(value, float):
            item.type, item.value = 3, int.from_bytes(bytes(ctypes.c_float(value)), "little")
        else:
            item.type, item.value, item.value_size = 2, pinned.words(value, ctypes.c_int64), len(value)
        blocks.append(bytes(memory))
    return pinned.text(b"".join(blocks))[0], len(values)


@dataclass(slots=True)
class Device:
    """A device, with its memories; `memory` is where arrays are unless they are put elsewhere."""

    number: int
    address: int = 0
    memory: int = 0
    memories: tuple[int, ...] = ()
    list_of_memories: int = 0
    list_of_device: int = 0

    def memory_of(self, kind: str) -> int:
        """The memory of a kind, by JAX's name; PjrtError where there is none."""
        if kind not in _KINDS:
            raise PjrtError("invalid argument", f"a CPU has no memory of the kind {kind!r}; it has {', '.join(_KINDS)}")
        return self.memories[_KINDS.index(kind)]


@dataclass(slots=True)
class Client:
    """What was created for one process of JAX; its devices are threads of this process."""

    pinned: Pinned
    address: int = 0
    topology: int = 0
    devices: list[Device] = field(default_factory=list)
    device_list: int = 0
    memory_list: int = 0


CLIENTS: dict[int, Client] = {}
_devices: dict[int, Device] = {}
_lock = threading.Lock()


def device_at(address: int) -> Device:
    """The device whose description, memory or itself lies there."""
    return _devices[address]


def _create(arguments: Structure) -> None:
    """A client with as many devices as the options say (``num_devices``)."""
    count = _device_count(arguments)
    pinned = Pinned()
    client = Client(pinned)
    for number in range(count):
        device = Device(number)
        device.address = pinned.words([0, number])
        device.memories = tuple(
            pinned.words([device.address, len(_KINDS) * number + place, *pinned.text(kind)])
            for place, kind in enumerate(_KINDS)
        )
        device.memory = device.memories[0]
        ctypes.c_uint64.from_address(device.address).value = device.memory
        device.list_of_memories = pinned.words(device.memories)
        device.list_of_device = pinned.words([device.address])
        client.devices.append(device)
        with _lock:
            _devices.update(dict.fromkeys([device.address, *device.memories], device))
    client.address = pinned.words([0, count])
    client.topology = pinned.words([client.address])
    client.device_list = pinned.words([device.address for device in client.devices])
    client.memory_list = pinned.words([memory for device in client.devices for memory in device.memories])
    with _lock:
        CLIENTS[client.address] = CLIENTS[client.topology] = client
    arguments.client = client.address


def _device_count(arguments: Structure) -> int:
    """How many devices the options ask for; PjrtError for more processes than one, each of which would be alone."""
    found: dict[bytes, int] = {}
    for number in range(arguments.num_options):
        size = make("struct NamedValue")[0]
        option = Structure("struct NamedValue", arguments.create_options + number * len(size))
        if option.text("name") in (b"num_devices", b"num_nodes"):  # the latter is of `jax.distributed`
            found[option.text("name")] = int(option.value)
    processes = found.get(b"num_nodes", 1)
    if processes > 1:
        what = f"hlotool has the devices of one process, and no program for {processes} of them"
        raise PjrtError("unimplemented", what)
    return found.get(b"num_devices", 1)


_text = Pinned()
_texts: dict[str, tuple[int, int]] = {}


def _said(text: str) -> tuple[int, int]:
    if text not in _texts:
        _texts[text] = _text.text(text)
    return _texts[text]


def _platform_name(arguments: Structure) -> None:
    arguments.platform_name, arguments.platform_name_size = _said(PLATFORM)


def _platform_version(arguments: Structure) -> None:
    arguments.platform_version, arguments.platform_version_size = _said(_VERSION)


def _process_index(arguments: Structure) -> None:
    arguments.process_index = 0


def _topology(arguments: Structure) -> None:
    arguments.topology = CLIENTS[arguments.client].topology


def _devices_of(arguments: Structure) -> None:
    client = CLIENTS[arguments.client]
    arguments.devices, arguments.num_devices = client.device_list, len(client.devices)


def _addressable_devices(arguments: Structure) -> None:
    client = CLIENTS[arguments.client]
    arguments.addressable_devices, arguments.num_addressable_devices = client.device_list, len(client.devices)


def _addressable_memories(arguments: Structure) -> None:
    client = CLIENTS[arguments.client]
    arguments.addressable_memories = client.memory_list
    arguments.num_addressable_memories = len(_KINDS) * len(client.devices)


def _numbered(client: int, number: int) -> int:
    devices = CLIENTS[client].devices
    if not 0 <= number < len(devices):
        raise PjrtError("invalid argument", f"No matching device found for local_device_id {number}")
    return devices[number].address


def _lookup_device(arguments: Structure) -> None:
    arguments.device = _numbered(arguments.client, arguments.id)


def _lookup_addressable(arguments: Structure) -> None:
    arguments.addressable_device = _numbered(arguments.client, arguments.local_hardware_id)


def _default_assignment(arguments: Structure) -> None:
    count = arguments.num_replicas * arguments.num_partitions
    available = len(CLIENTS[arguments.client].devices)
    if count > available:
        raise PjrtError("invalid argument", f"{count} devices are asked for, and there are {available}")
    (ctypes.c_int32 * count).from_address(arguments.default_assignment)[:] = list(range(count))


def _plugin_attributes(arguments: Structure) -> None:
    arguments.attributes, arguments.num_attributes = 0, 0


def _descriptions(arguments: Structure) -> None:
    client = CLIENTS[arguments.topology]
    arguments.descriptions, arguments.num_descriptions = client.device_list, len(client.devices)


def _topology_attributes(arguments: Structure) -> None:
    arguments.attributes, arguments.num_attributes = 0, 0


# ---- devices; a device is its own description


def _description(arguments: Structure) -> None:
    arguments.device_description = arguments.device


def _description_id(arguments: Structure) -> None:
    arguments.id = device_at(arguments.device_description).number


def _device_kind(arguments: Structure) -> None:
    arguments.device_kind, arguments.device_kind_size = _said("cpu")


def _device_attributes(arguments: Structure) -> None:
    arguments.num_attributes, arguments.attributes = 0, 0


def _more_attributes(arguments: Structure) -> None:
    arguments.num_attributes, arguments.attributes, arguments.device_attributes = 0, 0, 0
    arguments.attributes_deleter = pointer("Event_Error")  # there is nothing to end


def _device_debug(arguments: Structure) -> None:
    from jaxlib.version import __version__ as jaxlib

    number = device_at(arguments.device_description).number
    name = "TFRT_CPU_" if jaxlib.startswith("0.9.") else "cpu:"  # what that version calls its own
    arguments.debug_string, arguments.debug_string_size = _said(f"{name}{number}")


def _device_string(arguments: Structure) -> None:
    number = device_at(arguments.device_description).number
    arguments.to_string, arguments.to_string_size = _said(f"CpuDevice(id={number})")


def _is_addressable(arguments: Structure) -> None:
    arguments.is_addressable = True


def _hardware_id(arguments: Structure) -> None:
    arguments.local_hardware_id = device_at(arguments.device).number


def _device_memories(arguments: Structure) -> None:
    arguments.memories, arguments.num_memories = device_at(arguments.device).list_of_memories, len(_KINDS)


def _default_memory(arguments: Structure) -> None:
    arguments.memory = device_at(arguments.device).memory


def _memory_number(memory: int) -> int:
    return device_at(memory).memories.index(memory) + len(_KINDS) * device_at(memory).number


def _memory_id(arguments: Structure) -> None:
    arguments.id = _memory_number(arguments.memory)


def _memory_kind_id(arguments: Structure) -> None:
    arguments.kind_id = _memory_number(arguments.memory) % len(_KINDS)


def _memory_debug(arguments: Structure) -> None:
    number = _memory_number(arguments.memory)
    name = _NAMES[number % len(_KINDS)]
    arguments.debug_string, arguments.debug_string_size = _said(f"{name}(id={number}, process_index=0, client=cpu)")


def _memory_string(arguments: Structure) -> None:
    number = _memory_number(arguments.memory)
    kind = _KINDS[number % len(_KINDS)].upper()
    head = "" if number % len(_KINDS) else "CPU_"
    arguments.to_string, arguments.to_string_size = _said(f"{head}{kind}_{number}")


def _memory_devices(arguments: Structure) -> None:
    arguments.devices, arguments.num_devices = device_at(arguments.memory).list_of_device, 1


def _nothing(arguments: Structure) -> None:
    pass


def client_functions() -> dict[str, Function]:
    """The functions of the table about clients, devices, memories and topologies."""
    return {
        "Plugin_Initialize": _nothing,
        "Plugin_Attributes": _plugin_attributes,
        "Client_Create": _create,
        "Client_Destroy": _nothing,  # JAX has one for as long as the process lives
        "Client_PlatformName": _platform_name,
        "Client_PlatformVersion": _platform_version,
        "Client_ProcessIndex": _process_index,
        "Client_TopologyDescription": _topology,
        "Client_Devices": _devices_of,
        "Client_AddressableDevices": _addressable_devices,
        "Client_AddressableMemories": _addressable_memories,
        "Client_LookupDevice": _lookup_device,
        "Client_LookupAddressableDevice": _lookup_addressable,
        "Client_DefaultDeviceAssignment": _default_assignment,
        "TopologyDescription_PlatformName": _platform_name,
        "TopologyDescription_PlatformVersion": _platform_version,
        "TopologyDescription_GetDeviceDescriptions": _descriptions,
        "TopologyDescription_Attributes": _topology_attributes,
        "TopologyDescription_Destroy": _nothing,
        "DeviceDescription_Id": _description_id,
        "DeviceDescription_ProcessIndex": _process_index,
        "DeviceDescription_Attributes": _device_attributes,
        "DeviceDescription_Kind": _device_kind,
        "DeviceDescription_DebugString": _device_debug,
        "DeviceDescription_ToString": _device_string,
        "Device_GetDescription": _description,
        "Device_IsAddressable": _is_addressable,
        "Device_LocalHardwareId": _hardware_id,
        "Device_AddressableMemories": _device_memories,
        "Device_DefaultMemory": _default_memory,
        "Device_GetAttributes": _more_attributes,
        "Memory_Id": _memory_id,
        "Memory_Kind_Id": _memory_kind_id,
        "Memory_DebugString": _memory_debug,
        "Memory_ToString": _memory_string,
        "Memory_AddressableByDevices": _memory_devices,
    }
