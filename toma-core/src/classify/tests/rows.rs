//! Every known text in full, in every form.

use super::super::backend::{TABLES, WHOLE, is_whole, matches};
use super::super::text::normalized;
use super::super::{Class, classify_text};
use super::{backtrace, unwrapped, with_backtrace};

/// A text as its backend prints it: name, text, and the requested bytes in it.
type Case = (&'static str, &'static str, Option<u64>);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const CASES: &[(Class, &[Case])] = &[
    (Class::OutOfMemory, OUT_OF_MEMORY),
    (Class::Transient, TRANSIENT),
    (Class::Poisoned, POISONED),
    (Class::Other, OTHER),
];

#[rustfmt::skip]
const OUT_OF_MEMORY: &[Case] = &[
    ("cuda 2.x", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 22.61 GiB memory in use. Of the allocated memory 21.87 GiB is allocated by PyTorch, and 305.10 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.", Some(2 * GIB)),
    ("cuda 1.x", "CUDA out of memory. Tried to allocate 144.00 MiB (GPU 0; 10.92 GiB total capacity; 9.94 GiB already allocated; 12.50 MiB free; 10.15 GiB reserved in total by PyTorch)", Some(144 * MIB)),
    ("cuda 1.0 with its place", "CUDA out of memory. Tried to allocate 20.50 KiB (malloc at /pytorch/aten/src/THC/THCCachingAllocator.cpp:231)", Some(20 * KIB + 512)),
    ("cuda few bytes", "CUDA out of memory. Tried to allocate 512 bytes. GPU 1 has a total capacity of 8.00 GiB of which 0 bytes is free.", Some(512)),
    ("cuda more than 1EB", "CUDA out of memory. Tried to allocate more than 1EB memory.", Some(1 << 60)),
    ("cudaMallocAsync", "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 21.71 GiB\nRequested               : 4.00 GiB\nDevice limit            : 23.69 GiB", None),
    ("cuda check", "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n", None),
    ("cuda check 2.11", "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", None),
    ("cuda driver", "CUDA driver error: out of memory", None),
    ("cuda 0.x", "cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCTensorRandom.cu:25", None),
    ("cuda check of a user's frame", "decoder frame #0: CUDA error: out of memory", None),
    ("hip allocator", "HIP out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 15.98 GiB of which 310.00 MiB is free.", Some(GIB + GIB / 2)),
    ("hip check", "HIP error: out of memory\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", None),
    ("xpu allocator", "XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.56 GiB. Of the allocated memory 12.00 GiB is allocated by PyTorch, and 8.00 MiB is reserved by PyTorch but unallocated.", Some(4 * GIB)),
    ("xpu device", "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", None),
    ("xpu host", "level_zero backend failed with error: 38 (UR_RESULT_ERROR_OUT_OF_HOST_MEMORY)", None),
    ("mps allocator", "MPS backend out of memory (MPS allocated: 8.49 GB, other allocations: 384.00 KB, max allowed: 9.07 GB). Tried to allocate 1.00 GB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).", Some(GIB)),
    ("mps buffer", "Invalid buffer size: 14.50 GB", Some(14 * GIB + GIB / 2)),
    ("mps buffer, newer", "Invalid buffer size: 14.50 GiB", Some(14 * GIB + GIB / 2)),
    ("cpu linux", "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)", Some(8 * GIB)),
    ("cpu windows", "[enforce fail at alloc_cpu.cpp:128] data. DefaultCPUAllocator: not enough memory: you tried to allocate 1073741824 bytes.", Some(GIB)),
    ("bad_alloc", "std::bad_alloc", None),
    ("bad_alloc passed on", "Internal torch error: std::bad_alloc", None),
    ("bad_alloc described", "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", None),
    ("thrust", "std::bad_alloc: cudaErrorMemoryAllocation: out of memory", None),
    ("thrust, bare", "bad allocation: cudaErrorMemoryAllocation: out of memory", None),
    ("rmm", "std::bad_alloc: out_of_memory: CUDA error at: /rmm/include/rmm/mr/device/cuda_memory_resource.hpp", None),
    ("cublas", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
    ("cusolver", "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`", None),
    ("cufft", "cuFFT error: CUFFT_ALLOC_FAILED", None),
    ("curand", "CurandError(CURAND_STATUS_ALLOCATION_FAILED)", None),
    ("cusparse alloc", "CUDA error: CUSPARSE_STATUS_ALLOC_FAILED when calling `cusparseCreate(handle)`", None),
    ("cusparse resources", "CUDA error: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES when calling `cusparseSpGEMM_compute(handle)`", None),
    ("cusparse alloc described", "CUDA error: resource allocation failed when calling `cusparseCreate(handle)`", None),
    ("cusparse resources described", "CUDA error: insufficient resources when calling `cusparseSpGEMM_workEstimation( handle, opA, opB, &alpha, matA)`", None),
    ("cudnn 8", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", None),
    ("cudnn 9 host", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", None),
    ("cudnn 9 device", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", None),
    ("cudnn not supported", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", None),
    ("cudnn no algorithm", "Unable to find a valid cuDNN algorithm to run convolution", None),
    ("cudnn find", "FIND was unable to find an engine to execute this computation", None),
    ("cudnn get", "GET was unable to find an engine to execute this computation", None),
    ("cublaslt workspace", "OOM trying to allocate workspace for cublaslt", None),
    ("workspace", "Not enough memory for workspace!", None),
    ("magma", "magma: Error (-113) : cannot allocate memory on GPU device", None),
    ("cudarc and candle", "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")", None),
    ("cubecl device", "failed to reserve 22020096 bytes of device memory: out of device memory allocating 261319680 bytes", Some(261_319_680)),
    ("cubecl launch", "An out-of-memory error happened during launch", None),
    ("cubecl buffer", "can't allocate buffer of size: 4294967296", Some(4 * GIB)),
    ("cubecl pages", "Can't allocate 3221225472 bytes: every page size is smaller", Some(3 * GIB)),
    ("cubecl pool", "No pool handles allocation of size 411041792", Some(411_041_792)),
    ("cubecl 0.8 buffer", "BufferTooBig(10909384704)", Some(10_909_384_704)),
    ("cubecl 0.11 capacity", "memory pool capacity exceeded: failed to reserve 4294967296 bytes", Some(4 * GIB)),
    ("candle on metal, Debug", "Metal(KernelError(FailedToCreateResource(\"Buffer\")))", None),
    ("candle on metal", "Metal error Failed to create metal resource: Buffer", None),
    ("onnx runtime on windows", "bad allocation", None),
    ("onnx runtime on windows, in its node", "Non-zero status code returned while running MatMul node. Name:'MatMul_1' Status Message: bad allocation", None),
    ("directml", "Non-zero status code returned while running DmlFusedNode_0_0 node. Status Message: D:\\a\\_work\\1\\s\\onnxruntime\\core\\providers\\dml\\DmlExecutionProvider\\src\\DmlCommittedResourceAllocator.cpp(22)\\onnxruntime.dll!00007FFA: (caller: 00007FFB) Exception(1) tid(4d0c) 8007000E Not enough memory resources are available to complete this operation.", None),
    ("onnx runtime arena", "Non-zero status code returned while running Conv node. Name:'Conv_4' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 33554432\n", Some(32 * MIB)),
    ("onnx runtime cuda", "CUDA failure 2: out of memory ; GPU=0 ; hostname=node7 ; file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_allocator.cc ; line=47 ; expr=cudaMalloc((void**)&p, size);", None),
    ("onnx runtime limit", "BFCArena::AllocateRawInternal(size_t, bool) Available memory of 34699008 is smaller than requested bytes of 945041920", Some(945_041_920)),
    ("wgpu", "wgpu error: Out of Memory", None),
    ("wgpu, of a buffer", "wgpu error: Validation Error\n\nCaused by:\n  In Device::create_buffer\n    Not enough memory left.", None),
    ("xla trying", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", Some(16 * GIB)),
    ("xla allocating", "RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.", Some(16 * GIB)),
    ("try_reserve, Debug", "TryReserveError { kind: AllocError { layout: Layout { size: 8388608, align: 1 (1 << 0) }, non_exhaustive: () } }", Some(8 * MIB)),
    ("try_reserve, pretty Debug", "TryReserveError {\n    kind: AllocError {\n        layout: Layout {\n            size: 8388608,\n            align: 1 (1 << 0),\n        },\n        non_exhaustive: (),\n    },\n}", Some(8 * MIB)),
    ("try_reserve, capacity", "TryReserveError { kind: CapacityOverflow }", None),
    ("try_reserve of hashbrown", "AllocError { layout: Layout { size: 4096, align: 16 (1 << 4) } }", Some(4 * KIB)),
    ("try_reserve, Display", "memory allocation failed because the memory allocator returned an error", None),
    ("io::Error of the system", "Os { code: 12, kind: OutOfMemory, message: \"Cannot allocate memory\" }", None),
    ("io::Error of a kind", "Kind(OutOfMemory)", None),
    ("io::Error of a user", "Custom { kind: OutOfMemory, error: \"arena is full\" }", None),
    ("our own, Debug", "OutOfMemory { requested_bytes: Some(1048576) }", Some(MIB)),
    ("our own, Display", "out of memory: tried to allocate 1048576 bytes", Some(MIB)),
    ("our own, of a region", "cuda:0 out of memory: checkpoint net: a budget of 999 bytes is too small for auto: stage 2 needs 1000 bytes", None),
];

#[rustfmt::skip]
const TRANSIENT: &[Case] = &[
    ("cublas handle", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", None),
    ("cublaslt handle", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasLtCreate(handle)`", None),
    ("cublas internal", "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)`", None),
    ("cudnn handle", "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", None),
    ("cusolver handle", "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`", None),
    ("cudnn internal", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", None),
    ("onednn object", "could not create a memory object", None),
    ("onednn primitive", "could not execute a primitive", None),
    ("nvml", "NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/CUDACachingAllocator.cpp\":1016, please report a bug to PyTorch. ", None),
];

#[rustfmt::skip]
const POISONED: &[Case] = &[
    ("illegal access", "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", None),
    ("illegal access, cudarc", "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")", None),
    ("illegal access under nccl", "NCCL error, ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'an illegal memory access was encountered'", None),
    ("illegal access, then out of memory", "CUDA error: out of memory\nwhile handling: CUDA error: an illegal memory access was encountered", None),
    ("device assert", "CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.", None),
    ("launch failure", "CUDA error: unspecified launch failure", None),
    ("misaligned", "CUDA error: misaligned address", None),
    ("illegal instruction", "CUDA error: an illegal instruction was encountered", None),
    ("hardware stack", "CUDA error: hardware stack error", None),
    ("ecc", "CUDA error: uncorrectable ECC error encountered", None),
    ("launch timeout", "CUDA error: the launch timed out and was terminated", None),
    ("address space", "CUDA error: operation not supported on global/shared address space", None),
    ("program counter", "CUDA error: invalid program counter", None),
    ("nvlink", "CUDA error: uncorrectable NVLink error detected during the execution", None),
    ("ecc uncorrectable, cudarc", "DriverError(CUDA_ERROR_ECC_UNCORRECTABLE, \"uncorrectable ECC error encountered\")", None),
    ("nvlink uncorrectable, cudarc", "DriverError(CUDA_ERROR_NVLINK_UNCORRECTABLE, \"uncorrectable NVLink error detected during the execution\")", None),
    ("contained, cudarc", "DriverError(CUDA_ERROR_CONTAINED, \"<Failure when calling cuGetErrorString()>\")", None),
    ("launch timeout, cudarc", "DriverError(CUDA_ERROR_LAUNCH_TIMEOUT, \"the launch timed out and was terminated\")", None),
    ("context is destroyed, cudarc", "DriverError(CUDA_ERROR_CONTEXT_IS_DESTROYED, \"context is destroyed\")", None),
    ("assert, cudarc", "DriverError(CUDA_ERROR_ASSERT, \"device-side assert triggered\")", None),
    ("hardware stack error, cudarc", "DriverError(CUDA_ERROR_HARDWARE_STACK_ERROR, \"hardware stack error\")", None),
    ("illegal instruction, cudarc", "DriverError(CUDA_ERROR_ILLEGAL_INSTRUCTION, \"an illegal instruction was encountered\")", None),
    ("misaligned address, cudarc", "DriverError(CUDA_ERROR_MISALIGNED_ADDRESS, \"misaligned address\")", None),
    ("invalid address space, cudarc", "DriverError(CUDA_ERROR_INVALID_ADDRESS_SPACE, \"operation not supported on global/shared address space\")", None),
    ("invalid pc, cudarc", "DriverError(CUDA_ERROR_INVALID_PC, \"invalid program counter\")", None),
    ("launch failed, cudarc", "DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")", None),
    ("tensor memory leak, cudarc", "DriverError(CUDA_ERROR_TENSOR_MEMORY_LEAK, \"<Failure when calling cuGetErrorString()>\")", None),
    ("mps client terminated, cudarc", "DriverError(CUDA_ERROR_MPS_CLIENT_TERMINATED, \"<Failure when calling cuGetErrorString()>\")", None),
    ("wgpu", "wgpu error: Validation Error\n\nCaused by:\n  In Queue::submit\n    Parent device is lost", None),
    ("external device, cudarc", "DriverError(CUDA_ERROR_EXTERNAL_DEVICE, \"<Failure when calling cuGetErrorString()>\")", None),
];

#[rustfmt::skip]
const OTHER: &[Case] = &[
    ("nccl", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'", None),
    ("nccl, last error alone", "Cuda failure 2 'out of memory'", None),
    ("nccl, older", "Cuda failure 'out of memory'", None),
    ("nccl quoting an out of memory", "Cuda failure 2 'out of memory' (CUDA error: out of memory)", None),
    ("nccl quoting an amount", "Cuda failure 2 'out of memory' (Tried to allocate 2.00 GiB)", None),
    ("nccl calloc", "Failed to CUDA calloc async 608 bytes", None),
    ("invalid argument", "CUDA error: invalid argument\nSearch for `cudaErrorInvalidValue' in https://docs.nvidia.com/cuda/ for more information.", None),
    ("invalid configuration", "CUDA error: invalid configuration argument", None),
    ("launch resources", "CUDA error: too many resources requested for launch", None),
    ("shared memory", "out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", None),
    ("cublas execution", "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle)`", None),
    ("cublas elsewhere", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm( handle)`", None),
    ("cudnn not supported, bare", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED", None),
    ("storage overflow", "Storage size calculation overflowed with sizes=[4611686018427387904, 4]", None),
    ("negative size", "[enforce fail at alloc_cpu.cpp:88] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been called with negative number: 18446744071562067968", None),
    ("nnpack", "[W NNPACK.cpp:64] Could not initialize NNPACK! Reason: Out of memory.", None),
    ("fork", "Cannot allocate memory", None),
    ("fork, with its number", "fork: Cannot allocate memory (os error 12)", None),
    ("shm", "unable to mmap 4096 bytes from file </torch_4242_0>: Cannot allocate memory (12)", None),
    ("shape add", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1", None),
    ("shape matmul", "mat1 and mat2 shapes cannot be multiplied (128x512 and 256x64)", None),
    ("shape view", "shape '[2, 3]' is invalid for input of size 7", None),
    ("dtype", "expected scalar type Float but found Half", None),
    ("user, a story", "the hero is out of memory and cannot recall the way", None),
    ("user, a limit", "memory budget exceeded in the configuration: 3 GiB asked for, 2 GiB allowed", None),
    ("user, a length check", "invalid buffer size: expected 16, got 12", None),
    ("user, bad_alloc in a sentence", "std::bad_alloc is what this crate never raises", None),
    ("user, bad_alloc at the end", "we translate every std::bad_alloc", None),
    ("nothing", "", None),
];

/// Texts of other programs, as in their sources, with numbers and names filled in: about memory of a kernel, of a
/// protocol, of a game. The last four consist of names of such errors alone.
#[rustfmt::skip]
const ONLY_SOUNDS_LIKE_IT: &[&str] = &[
    "GPU memory pool capacity exceeded",
    "Memory pool block capacity exceeded.",
    "prefix cache pool exhausted: needed 12 pages, but only 3 available",
    "not enough memory left for the preview buffer",
    "GL_OUT_OF_MEMORY: There is not enough memory left to execute the command. The state of the GL is undefined, except for the state of the error flags, after this error is recorded.",
    "[TextureAtlas::Finalize] bad allocation for atlas \"smoke\" (size=<0,16>)",
    "Bad allocation. You sure there's enough memory for this matrix?",
    "Bad allocation while closing socket (fd 7): Success",
    "Out of memory for creating EVR Sync",
    "out of memory for positions",
    "out of memory for page allocation",
    "Out of memory for 12 pollfd structs",
    "out of memory for calibration image",
    "out of memory for dirent - directory will be corrupted",
    "device is lost",
    "Device is lost during window render!",
    "By enrolling, the owner consents to remote wipe of the company work profile if the device is lost or the owner leaves the company",
    "failed to reserve server UDP port: address already in use",
    "Failed to reserve temporary file",
    "Failed to reserve PIO/MMIO regions (0000:00:1f.2)",
    "failed to reserve, send data error: closed",
    "Buffer too big for storage space",
    "Buffer too big. Maximum is 1024*1024.",
    "Buffer too big to decode as long",
    "not enough memory to decompress this archive",
    "Not enough memory to create CLUT4 debug font.",
    "not enough memory to init FullPieceCacheStorageFactory. Required 4096 mb, allowed only 1073741824",
    "Ran out of fixed ids.",
    "failed to create Metal resource state command encoder",
    "Failed to create Metal resources",
    "BufferTooBig(4096)",
    "SSError::BufferTooBig",
    "MessageBufferTooBig(1148001)",
    "NotYetWrittenBufferTooBig(0x7fff)",
];

/// Changes that a text may undergo before it is read; none of them changes its meaning.
type Disguise = (&'static str, fn(&str) -> String);

#[rustfmt::skip]
const DISGUISES: &[Disguise] = &[
    ("as printed", str::to_owned),
    ("in lower case", str::to_lowercase),
    ("in upper case", str::to_uppercase),
    ("before a backtrace", with_backtrace),
    ("before a backtrace, in upper case", |text| with_backtrace(text).to_uppercase()),
    ("before bare frames", |text| format!("{text}\n{}", backtrace())),
    ("in a panic", unwrapped),
    ("in a panic, in upper case", |text| unwrapped(text).to_uppercase()),
    ("in a panic with a backtrace", |text| unwrapped(&with_backtrace(text))),
    ("in a panic with bare frames", |text| unwrapped(&format!("{text}\n{}", backtrace()))),
    ("in a panic about a panic", |text| unwrapped(&unwrapped(text))),
    ("behind what was being done", |text| format!("forward failed on batch 7: {text}")),
];

fn cases() -> impl Iterator<Item = (Class, &'static Case)> {
    CASES.iter().flat_map(|(class, cases)| cases.iter().map(|case| (*class, case)))
}

#[test]
fn every_text_is_known_in_every_disguise() {
    for (disguised, disguise) in DISGUISES {
        for (class, (name, text, requested)) in cases() {
            let failure = classify_text(&disguise(text));
            assert_eq!((failure.class, failure.requested_bytes), (class, *requested), "{name}, {disguised}");
        }
    }
}

#[test]
fn look_alikes_are_other_failures() {
    for (disguised, disguise) in DISGUISES {
        for text in ONLY_SOUNDS_LIKE_IT {
            assert_eq!(classify_text(&disguise(text)).class, Class::Other, "{text}, {disguised}");
        }
    }
}

#[test]
fn every_row_has_its_case() {
    let texts: Vec<String> = cases().map(|(_, (_, text, _))| normalized(text)).collect();
    for row in TABLES.iter().copied().flatten() {
        assert!(texts.iter().any(|text| matches(row, text)), "no case for {row:?}");
    }
    for words in WHOLE {
        assert!(texts.iter().any(|text| is_whole(text, words)), "no case for {words:?}");
    }
}
