# SPDX-License-Identifier: Apache-2.0
"""Reads a gzipped profile.proto (github.com/google/pprof, proto/profile.proto) with nothing but its
field numbers, so that our encoder is not checked by our own decoder."""
import gzip


def _read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """A field of a message, encoded; value is an int, bytes or a text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """(number, value) of a message; value is an int or bytes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire == 2:
            size, at = _read_varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "cut short"
        elif wire == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        else:
            raise AssertionError(f"wire type {wire}")
        yield key >> 3, value


def _packed(value):
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        numbers.append(number)
    return numbers


def _message(data):
    message = {}
    for number, value in fields(data):
        message.setdefault(number, []).append(value)
    return message


class Pprof:
    """samples: [(names leaf first, values)], labels: of each a dict, sample_types: [(type, unit)]."""

    def __init__(self, path):
        with gzip.open(path) as file:
            root = _message(file.read())
        self.strings = [s.decode() for s in root[6]]
        assert self.strings[0] == "", "string 0 is empty"
        self.sample_types = [self._value_type(v) for v in root[1]]
        functions = {m[1][0]: self.strings[m[2][0]] for m in map(_message, root.get(5, []))}
        locations = {m[1][0]: self._lines(m, functions) for m in map(_message, root.get(4, []))}
        self.mappings = [self.strings[_message(m).get(5, [0])[0]] for m in root.get(3, [])]
        self.duration_ns = root.get(10, [0])[0]
        self.samples = [self._sample(_message(s), locations) for s in root.get(2, [])]
        self.labels = [self._labels(_message(s)) for s in root.get(2, [])]

    def _value_type(self, data):
        message = _message(data)
        return self.strings[message[1][0]], self.strings[message[2][0]]

    @staticmethod
    def _lines(message, functions):
        lines = [functions[_message(line)[1][0]] for line in message.get(4, [])]
        return lines or [f"0x{message.get(3, [0])[0]:x}"]

    @staticmethod
    def _sample(message, locations):
        numbers = [n for value in message.get(1, []) for n in _packed(value)]
        values = [n for value in message.get(2, []) for n in _packed(value)]
        return [name for number in numbers for name in locations[number]], values

    def _labels(self, message):
        """A label's text, or its number."""
        labels = [_message(label) for label in message.get(3, [])]
        return {self.strings[label[1][0]]: self.strings[label[2][0]] if 2 in label
                else label.get(3, [0])[0] for label in labels}

    def value_index(self, kind):
        return [name for name, _ in self.sample_types].index(kind)
