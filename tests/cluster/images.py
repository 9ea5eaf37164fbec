# SPDX-License-Identifier: Apache-2.0
"""Images from scratch: programs of this machine with their libraries, in an archive as `ctr images import` reads it."""
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile


def libraries_of(program):
    """Paths of the shared libraries that it loads, and its loader's. None of a static program."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout)


def library(name):
    """{path in the image: path here} of one that a program loads when it needs it."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    path = re.search(rf"\t{re.escape(name)} .*=> (\S+)", listed).group(1)
    return {path: path}


def layer_of(files):
    """The bytes of a tar. @files: path in the image to path here."""
    files = dict(files)
    for source in list(files.values()):
        files.update({library: library for library in libraries_of(source)})
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        for folder in ("tmp", "etc", "data", "var"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for name, source in sorted(files.items()):
            real = os.path.realpath(source)
            entry = tar.gettarinfo(real, arcname=name.lstrip("/"))
            entry.mode, entry.uid, entry.gid = 0o755, 0, 0
            with open(real, "rb") as content:
                tar.addfile(entry, content)
    return output.getvalue()


def write_image(path, name, files, entrypoint, user="0"):
    """@name: as pods name it, with a tag."""
    layer = layer_of(files)
    digest = hashlib.sha256(layer).hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps({"architecture": machine, "os": "linux", "config": {"Entrypoint": entrypoint, "User": user},
                         "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, content in (("manifest.json", manifest), ("config.json", config), ("layer.tar", layer)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return pathlib.Path(path)
