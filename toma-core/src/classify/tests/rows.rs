//! Every known text in full, in every disguise.

use super::super::backend::TABLES;
use super::super::text::normalized;
use super::super::{Class, classify_text};
use super::{backtrace, unwrapped, with_backtrace};

/// A text as its backend prints it; name, text, class, and the bytes it says were asked for.
type Case = (&'static str, &'static str, Class, Option<u64>);

const OOM: Class = Class::OutOfMemory;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[rustfmt::skip]
const OUT_OF_MEMORY: &[Case] = &[
    ("cuda 2.x", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 22.61 GiB memory in use. Of the allocated memory 21.87 GiB is allocated by PyTorch, and 305.10 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.", OOM, Some(2 * GIB)),
    ("cuda 1.x", "CUDA out of memory. Tried to allocate 144.00 MiB (GPU 0; 10.92 GiB total capacity; 9.94 GiB already allocated; 12.50 MiB free; 10.15 GiB reserved in total by PyTorch)", OOM, Some(144 * MIB)),
    ("cuda 1.0 with its place", "CUDA out of memory. Tried to allocate 20.50 KiB (malloc at /pytorch/aten/src/THC/THCCachingAllocator.cpp:231)", OOM, Some(20 * KIB + 512)),
    ("cuda few bytes", "CUDA out of memory. Tried to allocate 512 bytes. GPU 1 has a total capacity of 8.00 GiB of which 0 bytes is free.", OOM, Some(512)),
    ("cuda more than 1EB", "CUDA out of memory. Tried to allocate more than 1EB memory.", OOM, Some(1 << 60)),
    ("cudaMallocAsync", "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 21.71 GiB\nRequested               : 4.00 GiB\nDevice limit            : 23.69 GiB", OOM, None),
    ("cuda check", "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n", OOM, None),
    ("cuda check 2.11", "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", OOM, None),
    ("cuda driver", "CUDA driver error: out of memory", OOM, None),
    ("cuda 0.x", "cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCTensorRandom.cu:25", OOM, None),
    ("cuda check of a user's frame", "decoder frame #0: CUDA error: out of memory", OOM, None),
    ("hip allocator", "HIP out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 15.98 GiB of which 310.00 MiB is free.", OOM, Some(GIB + GIB / 2)),
    ("hip check", "HIP error: out of memory\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", OOM, None),
    ("xpu allocator", "XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.56 GiB. Of the allocated memory 12.00 GiB is allocated by PyTorch, and 8.00 MiB is reserved by PyTorch but unallocated.", OOM, Some(4 * GIB)),
    ("xpu device", "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", OOM, None),
    ("xpu host", "level_zero backend failed with error: 38 (UR_RESULT_ERROR_OUT_OF_HOST_MEMORY)", OOM, None),
    ("mps allocator", "MPS backend out of memory (MPS allocated: 8.49 GB, other allocations: 384.00 KB, max allowed: 9.07 GB). Tried to allocate 1.00 GB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).", OOM, Some(GIB)),
    ("mps buffer", "Invalid buffer size: 14.50 GB", OOM, Some(14 * GIB + GIB / 2)),
    ("mps buffer, newer", "Invalid buffer size: 14.50 GiB", OOM, Some(14 * GIB + GIB / 2)),
    ("cpu linux", "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)", OOM, Some(8 * GIB)),
    ("cpu windows", "[enforce fail at alloc_cpu.cpp:128] data. DefaultCPUAllocator: not enough memory: you tried to allocate 1073741824 bytes.", OOM, Some(GIB)),
    ("bad_alloc", "std::bad_alloc", OOM, None),
    ("bad_alloc passed on", "Internal torch error: std::bad_alloc", OOM, None),
    ("bad_alloc described", "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", OOM, None),
    ("thrust", "std::bad_alloc: cudaErrorMemoryAllocation: out of memory", OOM, None),
    ("thrust, bare", "bad allocation: cudaErrorMemoryAllocation: out of memory", OOM, None),
    ("rmm", "std::bad_alloc: out_of_memory: CUDA error at: /rmm/include/rmm/mr/device/cuda_memory_resource.hpp", OOM, None),
    ("cublas", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", OOM, None),
    ("cusolver", "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`", OOM, None),
    ("cufft", "cuFFT error: CUFFT_ALLOC_FAILED", OOM, None),
    ("cusparse alloc", "CUDA error: CUSPARSE_STATUS_ALLOC_FAILED when calling `cusparseCreate(handle)`", OOM, None),
    ("cusparse resources", "CUDA error: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES when calling `cusparseSpGEMM_compute(handle)`", OOM, None),
    ("cusparse alloc described", "CUDA error: resource allocation failed when calling `cusparseCreate(handle)`", OOM, None),
    ("cusparse resources described", "CUDA error: insufficient resources when calling `cusparseSpGEMM_workEstimation( handle, opA, opB, &alpha, matA)`", OOM, None),
    ("cudnn 8", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", OOM, None),
    ("cudnn 9 host", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", OOM, None),
    ("cudnn 9 device", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", OOM, None),
    ("cudnn not supported", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", OOM, None),
    ("cudnn no algorithm", "Unable to find a valid cuDNN algorithm to run convolution", OOM, None),
    ("cudnn find", "FIND was unable to find an engine to execute this computation", OOM, None),
    ("cudnn get", "GET was unable to find an engine to execute this computation", OOM, None),
    ("cublaslt workspace", "OOM trying to allocate workspace for cublaslt", OOM, None),
    ("workspace", "Not enough memory for workspace!", OOM, None),
    ("magma", "magma: Error (-113) : cannot allocate memory on GPU device", OOM, None),
    ("cudarc and candle", "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")", OOM, None),
    ("cubecl device", "failed to reserve 22020096 bytes of device memory: out of device memory allocating 261319680 bytes", OOM, Some(261_319_680)),
    ("cubecl launch", "An out-of-memory error happened during launch", OOM, None),
    ("cubecl buffer", "can't allocate buffer of size: 4294967296", OOM, Some(4 * GIB)),
    ("cubecl pages", "Can't allocate 3221225472 bytes: every page size is smaller", OOM, Some(3 * GIB)),
    ("cubecl pool", "No pool handles allocation of size 411041792", OOM, Some(411_041_792)),
    ("onnx runtime arena", "Non-zero status code returned while running Conv node. Name:'Conv_4' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 33554432\n", OOM, Some(32 * MIB)),
    ("onnx runtime cuda", "CUDA failure 2: out of memory ; GPU=0 ; hostname=node7 ; file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_allocator.cc ; line=47 ; expr=cudaMalloc((void**)&p, size);", OOM, None),
    ("onnx runtime limit", "BFCArena::AllocateRawInternal(size_t, bool) Available memory of 34699008 is smaller than requested bytes of 945041920", OOM, Some(945_041_920)),
    ("wgpu", "wgpu error: Out of Memory", OOM, None),
    ("xla trying", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", OOM, Some(16 * GIB)),
    ("xla allocating", "RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.", OOM, Some(16 * GIB)),
    ("try_reserve, Debug", "TryReserveError { kind: AllocError { layout: Layout { size: 8388608, align: 1 (1 << 0) }, non_exhaustive: () } }", OOM, Some(8 * MIB)),
    ("try_reserve, pretty Debug", "TryReserveError {\n    kind: AllocError {\n        layout: Layout {\n            size: 8388608,\n            align: 1 (1 << 0),\n        },\n        non_exhaustive: (),\n    },\n}", OOM, Some(8 * MIB)),
    ("try_reserve, capacity", "TryReserveError { kind: CapacityOverflow }", OOM, None),
    ("try_reserve of hashbrown", "AllocError { layout: Layout { size: 4096, align: 16 (1 << 4) } }", OOM, Some(4 * KIB)),
    ("try_reserve, Display", "memory allocation failed because the memory allocator returned an error", OOM, None),
    ("io::Error of the system", "Os { code: 12, kind: OutOfMemory, message: \"Cannot allocate memory\" }", OOM, None),
    ("io::Error of a kind", "Kind(OutOfMemory)", OOM, None),
    ("io::Error of a user", "Custom { kind: OutOfMemory, error: \"arena is full\" }", OOM, None),
    ("our own, Debug", "OutOfMemory { requested_bytes: Some(1048576) }", OOM, Some(MIB)),
    ("our own, Display", "out of memory: tried to allocate 1048576 bytes", OOM, Some(MIB)),
];

#[rustfmt::skip]
const TRANSIENT: &[Case] = &[
    ("cublas handle", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", Class::Transient, None),
    ("cublaslt handle", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasLtCreate(handle)`", Class::Transient, None),
    ("cublas internal", "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)`", Class::Transient, None),
    ("cudnn internal", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", Class::Transient, None),
    ("onednn object", "could not create a memory object", Class::Transient, None),
    ("onednn primitive", "could not execute a primitive", Class::Transient, None),
    ("nvml", "NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/CUDACachingAllocator.cpp\":1016, please report a bug to PyTorch. ", Class::Transient, None),
];

#[rustfmt::skip]
const POISONED: &[Case] = &[
    ("illegal access", "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", Class::Poisoned, None),
    ("illegal access, cudarc", "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")", Class::Poisoned, None),
    ("illegal access under nccl", "NCCL error, ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'an illegal memory access was encountered'", Class::Poisoned, None),
    ("illegal access, then out of memory", "CUDA error: out of memory\nwhile handling: CUDA error: an illegal memory access was encountered", Class::Poisoned, None),
    ("device assert", "CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.", Class::Poisoned, None),
    ("launch failure", "CUDA error: unspecified launch failure", Class::Poisoned, None),
    ("misaligned", "CUDA error: misaligned address", Class::Poisoned, None),
    ("illegal instruction", "CUDA error: an illegal instruction was encountered", Class::Poisoned, None),
    ("hardware stack", "CUDA error: hardware stack error", Class::Poisoned, None),
    ("ecc", "CUDA error: uncorrectable ECC error encountered", Class::Poisoned, None),
    ("launch timeout", "CUDA error: the launch timed out and was terminated", Class::Poisoned, None),
    ("address space", "CUDA error: operation not supported on global/shared address space", Class::Poisoned, None),
    ("program counter", "CUDA error: invalid program counter", Class::Poisoned, None),
    ("nvlink", "CUDA error: uncorrectable NVLink error detected during the execution", Class::Poisoned, None),
    ("ecc uncorrectable, cudarc", "DriverError(CUDA_ERROR_ECC_UNCORRECTABLE, \"uncorrectable ECC error encountered\")", Class::Poisoned, None),
    ("nvlink uncorrectable, cudarc", "DriverError(CUDA_ERROR_NVLINK_UNCORRECTABLE, \"uncorrectable NVLink error detected during the execution\")", Class::Poisoned, None),
    ("contained, cudarc", "DriverError(CUDA_ERROR_CONTAINED, \"<Failure when calling cuGetErrorString()>\")", Class::Poisoned, None),
    ("launch timeout, cudarc", "DriverError(CUDA_ERROR_LAUNCH_TIMEOUT, \"the launch timed out and was terminated\")", Class::Poisoned, None),
    ("context is destroyed, cudarc", "DriverError(CUDA_ERROR_CONTEXT_IS_DESTROYED, \"context is destroyed\")", Class::Poisoned, None),
    ("assert, cudarc", "DriverError(CUDA_ERROR_ASSERT, \"device-side assert triggered\")", Class::Poisoned, None),
    ("hardware stack error, cudarc", "DriverError(CUDA_ERROR_HARDWARE_STACK_ERROR, \"hardware stack error\")", Class::Poisoned, None),
    ("illegal instruction, cudarc", "DriverError(CUDA_ERROR_ILLEGAL_INSTRUCTION, \"an illegal instruction was encountered\")", Class::Poisoned, None),
    ("misaligned address, cudarc", "DriverError(CUDA_ERROR_MISALIGNED_ADDRESS, \"misaligned address\")", Class::Poisoned, None),
    ("invalid address space, cudarc", "DriverError(CUDA_ERROR_INVALID_ADDRESS_SPACE, \"operation not supported on global/shared address space\")", Class::Poisoned, None),
    ("invalid pc, cudarc", "DriverError(CUDA_ERROR_INVALID_PC, \"invalid program counter\")", Class::Poisoned, None),
    ("launch failed, cudarc", "DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")", Class::Poisoned, None),
    ("tensor memory leak, cudarc", "DriverError(CUDA_ERROR_TENSOR_MEMORY_LEAK, \"<Failure when calling cuGetErrorString()>\")", Class::Poisoned, None),
    ("mps client terminated, cudarc", "DriverError(CUDA_ERROR_MPS_CLIENT_TERMINATED, \"<Failure when calling cuGetErrorString()>\")", Class::Poisoned, None),
    ("external device, cudarc", "DriverError(CUDA_ERROR_EXTERNAL_DEVICE, \"<Failure when calling cuGetErrorString()>\")", Class::Poisoned, None),
];

#[rustfmt::skip]
const OTHER: &[Case] = &[
    ("nccl", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'", Class::Other, None),
    ("nccl, last error alone", "Cuda failure 2 'out of memory'", Class::Other, None),
    ("nccl, older", "Cuda failure 'out of memory'", Class::Other, None),
    ("nccl quoting an out of memory", "Cuda failure 2 'out of memory' (CUDA error: out of memory)", Class::Other, None),
    ("nccl quoting an amount", "Cuda failure 2 'out of memory' (Tried to allocate 2.00 GiB)", Class::Other, None),
    ("nccl calloc", "Failed to CUDA calloc async 608 bytes", Class::Other, None),
    ("invalid argument", "CUDA error: invalid argument\nSearch for `cudaErrorInvalidValue' in https://docs.nvidia.com/cuda/ for more information.", Class::Other, None),
    ("invalid configuration", "CUDA error: invalid configuration argument", Class::Other, None),
    ("launch resources", "CUDA error: too many resources requested for launch", Class::Other, None),
    ("shared memory", "out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", Class::Other, None),
    ("cublas execution", "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle)`", Class::Other, None),
    ("cublas elsewhere", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm( handle)`", Class::Other, None),
    ("cudnn not supported, bare", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED", Class::Other, None),
    ("storage overflow", "Storage size calculation overflowed with sizes=[4611686018427387904, 4]", Class::Other, None),
    ("negative size", "[enforce fail at alloc_cpu.cpp:88] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been called with negative number: 18446744071562067968", Class::Other, None),
    ("nnpack", "[W NNPACK.cpp:64] Could not initialize NNPACK! Reason: Out of memory.", Class::Other, None),
    ("fork", "Cannot allocate memory", Class::Other, None),
    ("fork, with its number", "fork: Cannot allocate memory (os error 12)", Class::Other, None),
    ("shm", "unable to mmap 4096 bytes from file </torch_4242_0>: Cannot allocate memory (12)", Class::Other, None),
    ("shape add", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1", Class::Other, None),
    ("shape matmul", "mat1 and mat2 shapes cannot be multiplied (128x512 and 256x64)", Class::Other, None),
    ("shape view", "shape '[2, 3]' is invalid for input of size 7", Class::Other, None),
    ("dtype", "expected scalar type Float but found Half", Class::Other, None),
    ("user, a story", "the hero is out of memory and cannot recall the way", Class::Other, None),
    ("user, a limit", "memory budget exceeded in the configuration: 3 GiB asked for, 2 GiB allowed", Class::Other, None),
    ("user, a length check", "invalid buffer size: expected 16, got 12", Class::Other, None),
    ("user, bad_alloc in a sentence", "std::bad_alloc is what this crate never raises", Class::Other, None),
    ("user, bad_alloc at the end", "we translate every std::bad_alloc", Class::Other, None),
    ("nothing", "", Class::Other, None),
];

fn cases() -> impl Iterator<Item = &'static Case> {
    [OUT_OF_MEMORY, TRANSIENT, POISONED, OTHER].into_iter().flatten()
}

/// Checks every case, each changed by `disguise`, and names all that are read wrongly.
#[track_caller]
fn check(disguise: impl Fn(&str) -> String) {
    let wrong: Vec<String> = cases()
        .filter_map(|(name, text, class, requested)| {
            let failure = classify_text(&disguise(text));
            let right = failure.class == *class && failure.requested_bytes == *requested;
            (!right).then(|| format!("{name}: expected {class:?} {requested:?}, got {failure:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn as_printed() {
    check(str::to_owned);
}

#[test]
fn in_either_case() {
    check(str::to_lowercase);
    check(str::to_uppercase);
}

#[test]
fn before_a_backtrace() {
    check(with_backtrace);
    check(|text| with_backtrace(text).to_uppercase());
}

#[test]
fn before_bare_frames() {
    check(|text| format!("{text}\n{}", backtrace()));
}

#[test]
fn in_a_panic() {
    check(unwrapped);
    check(|text| unwrapped(text).to_uppercase());
}

#[test]
fn in_a_panic_with_a_backtrace() {
    check(|text| unwrapped(&with_backtrace(text)));
    check(|text| unwrapped(&format!("{text}\n{}", backtrace())));
}

#[test]
fn in_a_panic_about_a_panic() {
    check(|text| unwrapped(&unwrapped(text)));
}

#[test]
fn behind_what_was_being_done() {
    check(|text| format!("forward failed on batch 7: {text}"));
}

#[test]
fn every_row_has_its_case() {
    let texts: Vec<String> = cases().map(|(_, text, ..)| normalized(text)).collect();
    for (table, rows) in TABLES.iter().enumerate() {
        for (number, row) in rows.iter().enumerate() {
            assert!(texts.iter().any(|text| row.matches(text)), "table {table}, row {number}: no case");
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = cases().map(|(name, ..)| name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
