"""Reads ELF files and the fat binaries in them, as far as the tests ask. 64-bit little-endian."""

import struct

PTX, CUBIN = 1, 2
COMPRESSED = 0x2000 | 0x8000  # flags of a fat binary's entry: LZ4, zstd


def sections(data):
    """{name: bytes} of an ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    names = data[heads[names_at][4] :][: heads[names_at][5]]
    found = {}
    for head in heads:
        name = names[head[0] : names.index(b"\0", head[0])].decode()
        if head[1] != 8:  # SHT_NOBITS has no bytes
            found[name] = data[head[4] : head[4] + head[5]]
    return found


def dynamic(data):
    """{"needed": [libraries], "runpath": text} of a program or shared library."""
    parts = sections(data)
    strings = parts[".dynstr"]
    found = {"needed": [], "runpath": ""}
    for tag, value in struct.iter_unpack("<QQ", parts[".dynamic"]):
        text = strings[value : strings.index(b"\0", value)].decode() if tag in (1, 29) else ""
        if tag == 1:
            found["needed"].append(text)
        elif tag == 29:
            found["runpath"] = text
    return found


def fat_binaries(data):
    """One list a fat binary of its entries (kind, architecture, is compressed, payload)."""
    blob, at, found = sections(data).get(".nv_fatbin", b""), 0, []
    while at + 16 <= len(blob):
        magic, _, head_bytes, body_bytes = struct.unpack_from("<IHHQ", blob, at)
        if magic != 0xBA55ED50:
            at += 8  # padding between fat binaries
            continue
        entries, place = [], at + head_bytes
        at += head_bytes + body_bytes
        while place < at:
            kind, _, entry_head, payload = struct.unpack_from("<HHIQ", blob, place)
            (architecture,) = struct.unpack_from("<I", blob, place + 28)
            (flags,) = struct.unpack_from("<Q", blob, place + 40)
            body = blob[place + entry_head : place + entry_head + payload]
            entries.append((kind, architecture, bool(flags & COMPRESSED), body))
            place += entry_head + payload
        found.append(entries)
    return found
