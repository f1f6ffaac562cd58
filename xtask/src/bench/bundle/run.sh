#!/bin/sh
# Runs the checks and benchmarks of this folder with the libtorch of this machine's Python, and prints
# a table of the checks and then the figures of the benchmarks. Needs neither Rust nor a network.
#
#   ./run            everything
#   ./run --quick    without the benchmarks
#
# PYTHON names the interpreter whose PyTorch is used; python3 when it is not set.
# Exits with 0 when no check failed, with 1 when one did, and with 2 when nothing could be run.
#
# The programs are linked with libtorch's CPU part. Its CUDA part registers itself when it is loaded,
# so it is loaded before the programs that check it.

set -u

needed=2.11
limit=per_process_memory_fraction:0.02

give_up() {
    echo "error: $*" >&2
    exit 2
}

row() {
    printf '%-62s | %-23s | %s\n' "$1" "$2" "$3"
}

# Runs a program, for at most half an hour if there is a `timeout`.
run() {
    if command -v timeout >/dev/null 2>&1; then timeout 1800 "$@"; else "$@"; fi
}

# A row for a program that checks itself: NAME PROGRAM ARGUMENTS...
checks() {
    name=$1
    shift
    if run "$@" >"$log" 2>&1; then
        row "$name" ok "$(sed -n 's/^test result: ok\. \([0-9]* passed\).*/\1/p' "$log" | tail -n 1)"
    else
        row "$name" FAILED "exit status $?"
        failed=$((failed + 1))
        tail -n 60 "$log" >&2
    fi
}

# A benchmark, which prints lines of its own: NAME PROGRAM ARGUMENTS...
figures() {
    echo
    echo "== $1"
    shift
    run "$@" || failed=$((failed + 1))
}

case ${1-} in
'' | --quick) ;;
*) give_up "unknown argument $1: --quick is the only one" ;;
esac

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || give_up "$0: the folder cannot be entered"
python=${PYTHON:-python3}
log=$(mktemp) || give_up "no temporary file can be made"
trap 'rm -f "$log"' EXIT
trap 'exit 2' INT TERM
failed=0

# Found without being imported, which takes seconds and may fail for reasons that are not ours.
torch=$("$python" -c '
import importlib.util, os
print(os.path.dirname(importlib.util.find_spec("torch").origin))' 2>"$log") ||
    give_up "$python has no PyTorch, of which $needed is needed; PYTHON names another interpreter ($(tail -n 1 "$log"))"
version=$(sed -n "s/^__version__ *= *['\"]\([^'\"]*\).*/\1/p" "$torch/version.py" 2>/dev/null)
case $version in
"$needed".*) ;;
*) give_up "PyTorch in $torch is ${version:-of an unknown version}; $needed is needed" ;;
esac

# PyTorch's own libraries, and those of the packages it depends on, which are installed next to it.
libraries=$torch/lib
for folder in "$torch"/../nvidia/*/lib; do
    [ -d "$folder" ] && libraries=$libraries:$folder
done
# libtorch prefers this variable over the one with the limit.
unset PYTORCH_CUDA_ALLOC_CONF
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

cuda=$torch/lib/libtorch_cuda.so
if [ ! -e "$cuda" ]; then
    cuda='' how='none: this PyTorch is a CPU build'
elif why=$(LD_PRELOAD=$cuda sh -c : 2>&1) && [ -z "$why" ]; then
    how='loaded'
else
    how="cannot be loaded: $(printf '%s\n' "$why" | head -n 1)"
    cuda=''
fi

echo "date:     $(date -u '+%Y-%m-%d %H:%M UTC')"
echo "device:   $(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null || echo 'no NVIDIA driver')"
echo "libtorch: $version in $torch"
echo "its CUDA: $how"
echo

with_cuda() {
    if [ -n "$cuda" ]; then
        run env PYTORCH_ALLOC_CONF=$limit LD_PRELOAD="$cuda" "$@"
    else
        run env PYTORCH_ALLOC_CONF=$limit "$@"
    fi
}

# The rows of the checks that need a GPU come first, under the heading of the table, with their results on a paper card.
with_cuda "$here/gpu" >"$log" 2>&1
status=$?
awk -F ' [|] ' '
    NR == FNR { card[$1] = substr($0, length($1) + 1); next }
    / [|] / { print; if ($1 in card && !/^check /) printf "%-62s%s\n", "  on a paper card", card[$1] }
' "$here/card.txt" "$log"
summary=$(tail -n 1 "$log")
if [ $status -ne 0 ]; then
    failed=$((failed + 1))
    row 'checks on a GPU' FAILED "exit status $status: $summary"
fi
if [ -n "$cuda" ]; then
    why=$(LD_PRELOAD="$here/liblimits.so" sh -c : 2>&1)
    [ -z "$why" ] || give_up "$here/liblimits.so cannot be loaded: $why"
    # A card of 16 GiB, whose allocations fail where a test asks for it.
    for suite in checkpoint torch lines offload; do
        # shellcheck disable=SC2046
        checks "toma-torch: suite $suite on the GPU" env TOMA_TEST_DEVICE=cuda LD_PRELOAD="$here/liblimits.so $cuda" \
            "$here/$suite" $(cat "$here/$suite.txt")
    done
fi
checks 'toma-torch: tests on the CPU' "$here/torch"
checks 'toma-cuda: cudarc against a double of the driver' env CUDA_DOUBLE="$here/double" "$here/cuda"
if [ "${1-}" != --quick ]; then
    if [ -n "$cuda" ]; then
        figures steps env LD_PRELOAD="$cuda" "$here/steps"
        figures nets env LD_PRELOAD="$cuda" "$here/nets" --cuda --within 60GiB
    fi
    figures tensors "$here/tensors"
    figures overhead "$here/overhead"
fi

echo
echo "checks on a GPU: $summary"
if [ $failed -ne 0 ]; then
    echo "FAILED"
    exit 1
fi
echo "nothing failed"
