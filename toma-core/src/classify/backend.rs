//! One table per backend: the texts that decide, and what they mean.
//!
//! The texts are library output, collected from the sources and bug reports of each backend. They
//! are written as [`normalized`](super::text::normalized) writes a text: lower case, no line breaks,
//! no double quotes, so that they match inside a Debug form too.

use super::Class;

/// Texts that decide together, and the class they mean: each stands somewhere in the message.
pub(super) type Row = (Class, &'static [&'static str]);

const OUT_OF_MEMORY: Class = Class::OutOfMemory;
const TRANSIENT: Class = Class::Transient;
const POISONED: Class = Class::Poisoned;
const LOOK_ALIKE: Class = Class::Other;

/// The class of a normalized text, when any table knows it.
///
/// Of several rows that match, the one whose class stands highest in [`precedence`] decides.
pub(super) fn class_of(said: &str) -> Option<Class> {
    let rows = TABLES.iter().copied().flatten().filter(|row| matches(row, said)).map(|(class, _)| *class);
    let whole = WHOLE.iter().any(|words| is_whole(said, words)) || is_too_big(said);
    rows.chain(whole.then_some(OUT_OF_MEMORY)).max_by_key(|class| precedence(*class))
}

fn precedence(class: Class) -> u8 {
    match class {
        // The context is lost whatever else is said; a retry on it fails again and buries the cause.
        Class::Poisoned => 3,
        // Look-alikes are longer than what they look like, and quote it.
        Class::Other => 2,
        Class::OutOfMemory => 1,
        // cuDNN's transient code is the beginning of its out-of-memory codes.
        Class::Transient => 0,
    }
}

pub(super) fn matches((_, parts): &Row, said: &str) -> bool {
    parts.iter().all(|part| said.contains(part))
}

/// Whether the message ends with `words`, with nothing before them or only what introduces them.
pub(super) fn is_whole(said: &str, words: &str) -> bool {
    let said = said.trim_end_matches([' ', ')', ']', '}', '\'', '`', '.', ',']);
    said.strip_suffix(words).is_some_and(|before| {
        let before = before.trim_end();
        before.is_empty() || before.ends_with([':', '(', '[', '{', '=', '\'', '`'])
    })
}

/// An error of cubecl 0.8 and 0.9 about a buffer, as Debug writes it: `BufferTooBig(10909384704)`. Errors of protocols have
/// the same name, and buffers of less than a MiB.
fn is_too_big(said: &str) -> bool {
    said.match_indices("buffertoobig(").any(|(at, name)| {
        let bytes = said[at + name.len()..].split(')').next().and_then(|bytes| bytes.parse::<u64>().ok());
        let is_its_name = !said[..at].ends_with(|sign: char| sign.is_alphanumeric() || sign == ':');
        is_its_name && bytes.is_some_and(|bytes| bytes >= 1 << 20)
    })
}

/// Words that also stand in ordinary sentences: out of memory only as the whole of what is said. `bad allocation` is
/// what `std::bad_alloc` says on Windows, and so ONNX Runtime; the last are our own, when only they are left of the type.
pub(super) const WHOLE: &[&str] = &["std::bad_alloc", "bad allocation", "out of memory"];

pub(super) const TABLES: &[&[Row]] =
    &[TORCH, CUDA, LIBRARIES, NCCL, ONEDNN, INTEL, CUDARC, METAL, CUBECL, ONNX, WGPU, XLA, TRITON, CPP, RUST];

const TORCH: &[Row] = &[
    (OUT_OF_MEMORY, &["cuda out of memory."]),
    (OUT_OF_MEMORY, &["hip out of memory."]),
    (OUT_OF_MEMORY, &["xpu out of memory."]),
    (OUT_OF_MEMORY, &["mps backend out of memory"]),
    // Only buffers beyond Metal's limit of several GB; without a unit it is a program's own length check.
    (OUT_OF_MEMORY, &["invalid buffer size:", " gb"]),
    (OUT_OF_MEMORY, &["invalid buffer size:", " gib"]),
    (OUT_OF_MEMORY, &["allocation on device", "would exceed allowed memory"]),
    (OUT_OF_MEMORY, &["cuda driver error: out of memory"]),
    (OUT_OF_MEMORY, &["cuda runtime error (2) : out of memory"]),
    (OUT_OF_MEMORY, &["defaultcpuallocator: can't allocate memory"]),
    (OUT_OF_MEMORY, &["defaultcpuallocator: not enough memory"]),
    (OUT_OF_MEMORY, &["oom trying to allocate workspace for cublaslt"]),
    (OUT_OF_MEMORY, &["not enough memory for workspace!"]),
    (OUT_OF_MEMORY, &["unable to find a valid cudnn algorithm to run convolution"]),
    (OUT_OF_MEMORY, &["find was unable to find an engine"]),
    (OUT_OF_MEMORY, &["get was unable to find an engine"]),
    (TRANSIENT, &["nvml_success == r internal assert failed"]),
    (LOOK_ALIKE, &["storage size calculation overflowed"]),
    (LOOK_ALIKE, &["alloc_cpu() seems to have been called with negative number"]),
    // A warning: the program goes on without NNPACK.
    (LOOK_ALIKE, &["could not initialize nnpack!"]),
];

/// What the CUDA and HIP runtimes say, through whatever library.
const CUDA: &[Row] = &[
    (OUT_OF_MEMORY, &["cuda error: out of memory"]),
    (OUT_OF_MEMORY, &["hip error: out of memory"]),
    (POISONED, &["an illegal memory access was encountered"]),
    (POISONED, &["device-side assert triggered"]),
    (POISONED, &["unspecified launch failure"]),
    (POISONED, &["misaligned address"]),
    (POISONED, &["an illegal instruction was encountered"]),
    (POISONED, &["hardware stack error"]),
    (POISONED, &["uncorrectable ecc"]),
    (POISONED, &["uncorrectable nvlink"]),
    (POISONED, &["the launch timed out and was terminated"]),
    (POISONED, &["operation not supported on global/shared address space"]),
    (POISONED, &["invalid program counter"]),
    (LOOK_ALIKE, &["cuda error: invalid argument"]),
    (LOOK_ALIKE, &["invalid configuration argument"]),
    (LOOK_ALIKE, &["too many resources requested for launch"]),
];

/// cuBLAS, cuDNN and the like.
const LIBRARIES: &[Row] = &[
    (OUT_OF_MEMORY, &["cublas_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cusolver_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cufft_alloc_failed"]),
    (OUT_OF_MEMORY, &["cusparse_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cusparse_status_insufficient_resources"]),
    // libtorch prints cuSPARSE's descriptions instead of the names.
    (OUT_OF_MEMORY, &["resource allocation failed when calling", "cusparse"]),
    (OUT_OF_MEMORY, &["insufficient resources when calling", "cusparse"]),
    (OUT_OF_MEMORY, &["cudnn_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cudnn_status_internal_error_host_allocation_failed"]),
    (OUT_OF_MEMORY, &["cudnn_status_internal_error_device_allocation_failed"]),
    // The workspace, or tensors beyond 2^31 elements: smaller batches cure both.
    (OUT_OF_MEMORY, &["cudnn_status_not_supported. this error may appear"]),
    // magma
    (OUT_OF_MEMORY, &["cannot allocate memory on gpu device"]),
    (TRANSIENT, &["cublas_status_not_initialized", "cublascreate"]),
    (TRANSIENT, &["cublas_status_not_initialized", "cublasltcreate"]),
    (TRANSIENT, &["cublas_status_internal_error"]),
    (TRANSIENT, &["cudnn_status_internal_error"]),
    (LOOK_ALIKE, &["cublas_status_execution_failed"]),
];

/// A collective must not be tried again on only one rank: the other ranks would wait forever.
const NCCL: &[Row] = &[
    (LOOK_ALIKE, &["cuda failure 2 'out of memory"]),
    (LOOK_ALIKE, &["cuda failure 'out of memory"]),
    (LOOK_ALIKE, &["ncclunhandledcudaerror"]),
    (LOOK_ALIKE, &["failed to cuda calloc"]),
];

const ONEDNN: &[Row] =
    &[(TRANSIENT, &["could not create a memory object"]), (TRANSIENT, &["could not execute a primitive"])];

const INTEL: &[Row] = &[
    (OUT_OF_MEMORY, &["ur_result_error_out_of_device_memory"]),
    (OUT_OF_MEMORY, &["ur_result_error_out_of_host_memory"]),
];

/// Also what candle prints.
const CUDARC: &[Row] = &[
    (OUT_OF_MEMORY, &["cuda_error_out_of_memory"]),
    (POISONED, &["cuda_error_ecc_uncorrectable"]),
    (POISONED, &["cuda_error_nvlink_uncorrectable"]),
    (POISONED, &["cuda_error_contained"]),
    (POISONED, &["cuda_error_illegal_address"]),
    (POISONED, &["cuda_error_launch_timeout"]),
    (POISONED, &["cuda_error_context_is_destroyed"]),
    (POISONED, &["cuda_error_assert"]),
    (POISONED, &["cuda_error_hardware_stack_error"]),
    (POISONED, &["cuda_error_illegal_instruction"]),
    (POISONED, &["cuda_error_misaligned_address"]),
    (POISONED, &["cuda_error_invalid_address_space"]),
    (POISONED, &["cuda_error_invalid_pc"]),
    (POISONED, &["cuda_error_launch_failed"]),
    (POISONED, &["cuda_error_tensor_memory_leak"]),
    (POISONED, &["cuda_error_mps_client_terminated"]),
    (POISONED, &["cuda_error_external_device"]),
];

/// Texts of candle where Metal gives no buffer, also one of no bytes, as Display and as Debug write them. Of other resources
/// candle says it where a shader is wrong.
const METAL: &[Row] = &[
    (OUT_OF_MEMORY, &["failed to create metal resource: buffer"]),
    (OUT_OF_MEMORY, &["failedtocreateresource( buffer"]),
];

/// Also what burn prints.
const CUBECL: &[Row] = &[
    (OUT_OF_MEMORY, &["out of device memory allocating"]),
    (OUT_OF_MEMORY, &["an out-of-memory error happened during launch"]),
    (OUT_OF_MEMORY, &["can't allocate buffer of size:"]),
    (OUT_OF_MEMORY, &["can't allocate", "bytes: every page size"]),
    (OUT_OF_MEMORY, &["no pool handles allocation of size"]),
    (OUT_OF_MEMORY, &["memory pool capacity exceeded: failed to reserve"]),
];

const ONNX: &[Row] = &[
    (OUT_OF_MEMORY, &["failed to allocate memory for requested buffer of size"]),
    (OUT_OF_MEMORY, &["cuda failure 2: out of memory"]),
    (OUT_OF_MEMORY, &["is smaller than requested bytes of"]),
    // DirectML: Windows' words for `E_OUTOFMEMORY`.
    (OUT_OF_MEMORY, &["8007000e not enough memory resources are available"]),
];

const WGPU: &[Row] = &[
    (OUT_OF_MEMORY, &["wgpu error: out of memory"]),
    (OUT_OF_MEMORY, &["wgpu error: validation error", "not enough memory left"]),
    (POISONED, &["parent device is lost"]),
];

const XLA: &[Row] = &[(OUT_OF_MEMORY, &["resource_exhausted: out of memory"])];

/// Shared memory of one kernel, which has nothing to do with how much is free.
const TRITON: &[Row] = &[(LOOK_ALIKE, &["out of resource: shared memory"])];

const CPP: &[Row] = &[
    // thrust and RMM say more than `std::bad_alloc`.
    (OUT_OF_MEMORY, &["cudaerrormemoryallocation: out of memory"]),
    (OUT_OF_MEMORY, &["std::bad_alloc: out_of_memory:"]),
];

/// Debug and Display forms of types that are out of memory by type, where only the text is left.
const RUST: &[Row] = &[
    (OUT_OF_MEMORY, &["tryreserveerror { kind:"]),
    // The same of other collections, such as hashbrown's.
    (OUT_OF_MEMORY, &["allocerror { layout: layout { size:"]),
    (OUT_OF_MEMORY, &["memory allocation failed because"]),
    // The three Debug forms of `io::Error`.
    (OUT_OF_MEMORY, &["kind: outofmemory"]),
    (OUT_OF_MEMORY, &["kind(outofmemory)"]),
    // Our own type.
    (OUT_OF_MEMORY, &["outofmemory { requested_bytes:"]),
    (OUT_OF_MEMORY, &["out of memory: tried to allocate"]),
    (OUT_OF_MEMORY, &["out of memory: checkpoint "]),
];
