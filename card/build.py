#!/usr/bin/env python3
"""Builds the paper card: build.py TORCH_LIB CUDA_INCLUDE OUT

For every NVIDIA library that libtorch in TORCH_LIB needs, OUT gets one that exports the functions that libtorch leaves
undefined, so that no package of CUDA has to be installed. OUT also gets the library with the values, and links to
libtorch's own libraries."""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH, INCLUDE, OUT = sys.argv[1:]
CC, CXX = os.environ.get("CC") or "cc", os.environ.get("CXX") or "c++"
CUDART, DRIVER, CUPTI = "libcudart.so.13", "libcuda.so.1", "libcupti.so.13"
# Not NVIDIA's: libtorch's own, and those of the system.
OTHERS = re.compile(r"lib(torch|c10|caffe2|shm|gomp|stdc|gcc_s|(c|m|dl|rt|pthread)\.|arm_|gfortran|openblas)|ld-linux")
# Libraries whose symbols have no version, by how their functions begin; elsewhere the version is the library's name.
UNVERSIONED = {r"cusparseLt": "libcusparseLt.so.0", "nccl": "libnccl.so.2", "cuFile": "libcufile.so.0",
               "nvrtc": "libnvrtc.so.13", "nvshmem": "libnvshmem_host.so.3", "cu[A-Z]": DRIVER}
# The status of libraries that refuse; the others succeed.
REFUSED = {CUDART: 801, "libcusolver.so.12": 9, "libcusparse.so.12": 10, "libcusparseLt.so.0": 10, "libnccl.so.2": 3,
           "libnvshmem_host.so.3": 1, "libcufile.so.0": 5002}


def read(*command):
    if not shutil.which(command[0]):
        sys.exit(f"no {command[0]}, with which the paper card is built: install a C compiler with binutils")
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return ended.stdout if ended.returncode == 0 else sys.exit(f"{command[0]} failed, see above")


def own_libraries():
    files = (name for name in os.listdir(TORCH) if ".so" in name and "python" not in name and name != "libtorch.so")
    return [os.path.join(TORCH, name) for name in sorted(files)]


def library_of(name, version):
    if version == "NVSHMEM" or not version:
        return next((library for begin, library in UNVERSIONED.items() if re.match(begin, name)), None)
    return version if version.startswith("lib") and not OTHERS.match(version) else None


def needed():
    """Functions that libtorch calls, by library."""
    found = {}
    for file in own_libraries():
        for name in re.findall(r"NEEDED.*\[(.*)\]", read("readelf", "-dW", file)):
            if not OTHERS.match(name):
                found.setdefault(name, set())
        for line in read("nm", "-D", "--undefined-only", "--with-symbol-versions", file).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if library := library_of(name, version):
                found.setdefault(library, set()).add(name)
    return found


def stub(library, name):
    if library not in REFUSED and re.search(r"Create(?!Program)|Init$", name):
        return f"int {name}(void **out) {{ *out = calloc(1, 256); return 0; }}\n"
    return f"long {name}(void) {{ return {REFUSED.get(library, 0)}; }}\n"


def build(library, names):
    """Answers written by hand, and stubs for what they lack."""
    short = re.match(r"lib(\w+)\.", library)[1]
    source = f"{HERE}/runtime/card.c" if library == CUDART else f"{HERE}/libraries/{short}.c"
    stem, flags = f"{OUT}/{short}", [CC, "-std=gnu11", "-O1", "-fPIC", "-isystem", INCLUDE, "-w"]
    objects = [f"{stem}.o"] if os.path.exists(source) else []
    answered = set()
    for made in objects:
        read(*flags, "-c", source, "-o", made)
        answered = {line.split()[-1] for line in read("nm", "--defined-only", made).splitlines()}
    with open(f"{stem}.c", "w") as out:
        out.write("#include <stdlib.h>\n" + "".join(stub(library, name) for name in sorted(names - answered)))
    exported = "cu*; __cuda*; paper_*" if library == CUDART else "; ".join(sorted(names))
    with open(f"{stem}.map", "w") as out:
        node = "NVSHMEM" if "nvshmem" in library else library
        out.write(f"{node} {{ {f'global: {exported};' if exported else ''} local: *; }};\n")
    read(*flags, "-shared", *objects, f"{stem}.c", "-o", f"{OUT}/{library}", f"-Wl,-soname,{library}",
         f"-Wl,--version-script={stem}.map", "-ldl", "-lpthread")


def link(file, name):
    if os.path.lexists(f"{OUT}/{name}"):
        os.remove(f"{OUT}/{name}")
    os.symlink(file, f"{OUT}/{name}")


def main():
    os.makedirs(OUT, exist_ok=True)
    includes = f"-isystem{TORCH}/../include", f"-isystem{TORCH}/../include/torch/csrc/api/include"
    compile = CXX, "-std=c++17", "-O1", "-fPIC", "-DNDEBUG", *includes, "-c", f"{HERE}/values/values.cpp"
    compiling = subprocess.Popen([*compile, "-o", f"{OUT}/values.o"])
    for library, names in needed().items():
        if library != DRIVER:
            build(library, names)
    for file in own_libraries():
        link(file, os.path.basename(file))
    # Its own folder is searched before any that a program names, for whatever these two load.
    search = "-Wl,--no-as-needed,--allow-shlib-undefined,--disable-new-dtags,-rpath,$ORIGIN", f"-L{OUT}", f"-l:{CUDART}"
    # The driver's functions are in the runtime's library.
    read(CC, "-shared", f"-Wl,-soname,{DRIVER}", "-o", f"{OUT}/{DRIVER}", *search)
    link(DRIVER, "libcuda.so")
    if compiling.wait():
        sys.exit("the values did not compile, see above")
    read(CXX, "-shared", f"{OUT}/values.o", "-o", f"{OUT}/libpapercard.so", *search, f"-l:{CUPTI}", f"-l:{DRIVER}",
         "-ltorch_cuda", "-ltorch_cpu", "-lc10", "-ldl")


main()
