//! Tables of error texts and their classes, one per backend.
//!
//! The texts are library output, collected from the sources and bug reports of each backend. They are written in
//! the form of [`normalized`](super::text::normalized): lower case, no line breaks, no double quotes, so that they
//! also match inside a Debug form.

use super::Class;

/// A class, and the texts that imply it if all of them are in the message.
pub(super) type TextRow = (Class, &'static [&'static str]);

const OUT_OF_MEMORY: Class = Class::OutOfMemory;
const TRANSIENT: Class = Class::Transient;
const POISONED: Class = Class::Poisoned;
const LOOK_ALIKE: Class = Class::Other;

/// Returns the class of a normalized text, if any table has it.
///
/// If several rows match, the one whose class is highest in [`precedence`] decides.
pub(super) fn class_of(text: &str) -> Option<Class> {
    let rows = TABLES.iter().copied().flatten().filter(|row| matches(row, text)).map(|(class, _)| *class);
    let whole = WHOLE.iter().any(|words| is_whole(text, words)) || is_too_big(text);
    rows.chain(whole.then_some(OUT_OF_MEMORY)).max_by_key(|class| precedence(*class))
}

fn precedence(class: Class) -> u8 {
    match class {
        // The context is lost in any case; a retry on it fails again and hides the cause.
        Class::Poisoned => 3,
        // Look-alikes are longer than the texts that they resemble, and quote them.
        Class::Other => 2,
        Class::OutOfMemory => 1,
        // cuDNN's transient code is a prefix of its out-of-memory codes.
        Class::Transient => 0,
    }
}

pub(super) fn matches((_, parts): &TextRow, text: &str) -> bool {
    parts.iter().all(|part| text.contains(part))
}

/// True if the message ends with `words`, with nothing before them or only an introduction such as `error:`.
pub(super) fn is_whole(text: &str, words: &str) -> bool {
    let text = text.trim_end_matches([' ', ')', ']', '}', '\'', '`', '.', ',']);
    text.strip_suffix(words).is_some_and(|before| {
        let before = before.trim_end();
        before.is_empty() || before.ends_with([':', '(', '[', '{', '=', '\'', '`'])
    })
}

/// Detects an error of cubecl 0.8 and 0.9 about a buffer, as Debug writes it: `BufferTooBig(10909384704)`. Errors
/// of protocols have the same name, but about buffers of less than a MiB.
fn is_too_big(text: &str) -> bool {
    text.match_indices("buffertoobig(").any(|(at, name)| {
        let bytes = text[at + name.len()..].split(')').next().and_then(|bytes| bytes.parse::<u64>().ok());
        let is_its_name = !text[..at].ends_with(|sign: char| sign.is_alphanumeric() || sign == ':');
        is_its_name && bytes.is_some_and(|bytes| bytes >= 1 << 20)
    })
}

/// Words that also occur in ordinary sentences, so they mean out of memory only as the whole message. The message
/// of `std::bad_alloc` on Windows, and so of ONNX Runtime, is `bad allocation`; the last is the text of this
/// crate's own type.
pub(super) const WHOLE: &[&str] = &["std::bad_alloc", "bad allocation", "out of memory"];

pub(super) const TABLES: &[&[TextRow]] =
    &[TORCH, CUDA, LIBRARIES, NCCL, ONEDNN, INTEL, CUDARC, METAL, CUBECL, ONNX, WGPU, XLA, TRITON, CPP, RUST];

const TORCH: &[TextRow] = &[
    (OUT_OF_MEMORY, &["cuda out of memory."]),
    (OUT_OF_MEMORY, &["hip out of memory."]),
    (OUT_OF_MEMORY, &["xpu out of memory."]),
    (OUT_OF_MEMORY, &["mps backend out of memory"]),
    // Only buffers beyond Metal's limit of several GB; without a unit the text is a program's own length check.
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

/// Texts of the CUDA and HIP runtimes, which any library may print.
const CUDA: &[TextRow] = &[
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

/// Texts of cuBLAS, cuDNN and similar libraries.
const LIBRARIES: &[TextRow] = &[
    (OUT_OF_MEMORY, &["cublas_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cusolver_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cufft_alloc_failed"]),
    (OUT_OF_MEMORY, &["curand_status_allocation_failed"]),
    (OUT_OF_MEMORY, &["cusparse_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cusparse_status_insufficient_resources"]),
    // libtorch prints cuSPARSE's descriptions instead of the names.
    (OUT_OF_MEMORY, &["resource allocation failed when calling", "cusparse"]),
    (OUT_OF_MEMORY, &["insufficient resources when calling", "cusparse"]),
    (OUT_OF_MEMORY, &["cudnn_status_alloc_failed"]),
    (OUT_OF_MEMORY, &["cudnn_status_internal_error_host_allocation_failed"]),
    (OUT_OF_MEMORY, &["cudnn_status_internal_error_device_allocation_failed"]),
    // Either the workspace is too large, or tensors exceed 2^31 elements: smaller batches cure both.
    (OUT_OF_MEMORY, &["cudnn_status_not_supported. this error may appear"]),
    // magma
    (OUT_OF_MEMORY, &["cannot allocate memory on gpu device"]),
    (TRANSIENT, &["cublas_status_not_initialized", "cublascreate"]),
    (TRANSIENT, &["cublas_status_not_initialized", "cublasltcreate"]),
    (TRANSIENT, &["cublas_status_internal_error"]),
    // Handles take memory of the device, and report any failure of their creation so.
    (TRANSIENT, &["cudnn_status_not_initialized"]),
    (TRANSIENT, &["cusolver_status_internal_error", "cusolverdncreate"]),
    (TRANSIENT, &["cudnn_status_internal_error"]),
    (LOOK_ALIKE, &["cublas_status_execution_failed"]),
];

/// Texts of collectives, which must not be retried on only one rank: the other ranks would wait forever.
const NCCL: &[TextRow] = &[
    (LOOK_ALIKE, &["cuda failure 2 'out of memory"]),
    (LOOK_ALIKE, &["cuda failure 'out of memory"]),
    (LOOK_ALIKE, &["ncclunhandledcudaerror"]),
    (LOOK_ALIKE, &["failed to cuda calloc"]),
];

const ONEDNN: &[TextRow] =
    &[(TRANSIENT, &["could not create a memory object"]), (TRANSIENT, &["could not execute a primitive"])];

const INTEL: &[TextRow] = &[
    (OUT_OF_MEMORY, &["ur_result_error_out_of_device_memory"]),
    (OUT_OF_MEMORY, &["ur_result_error_out_of_host_memory"]),
];

/// Texts of cudarc; candle prints them, too.
const CUDARC: &[TextRow] = &[
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

/// Texts of candle if Metal gives no buffer, even one of no bytes, as Display and as Debug write them. For other
/// resources than buffers the text means that a shader is wrong.
const METAL: &[TextRow] = &[
    (OUT_OF_MEMORY, &["failed to create metal resource: buffer"]),
    (OUT_OF_MEMORY, &["failedtocreateresource( buffer"]),
];

/// Texts of cubecl; burn prints them, too.
const CUBECL: &[TextRow] = &[
    (OUT_OF_MEMORY, &["out of device memory allocating"]),
    (OUT_OF_MEMORY, &["an out-of-memory error happened during launch"]),
    (OUT_OF_MEMORY, &["can't allocate buffer of size:"]),
    (OUT_OF_MEMORY, &["can't allocate", "bytes: every page size"]),
    (OUT_OF_MEMORY, &["no pool handles allocation of size"]),
    (OUT_OF_MEMORY, &["memory pool capacity exceeded: failed to reserve"]),
];

const ONNX: &[TextRow] = &[
    (OUT_OF_MEMORY, &["failed to allocate memory for requested buffer of size"]),
    (OUT_OF_MEMORY, &["cuda failure 2: out of memory"]),
    (OUT_OF_MEMORY, &["is smaller than requested bytes of"]),
    // DirectML: the text of Windows for `E_OUTOFMEMORY`.
    (OUT_OF_MEMORY, &["8007000e not enough memory resources are available"]),
];

const WGPU: &[TextRow] = &[
    (OUT_OF_MEMORY, &["wgpu error: out of memory"]),
    (OUT_OF_MEMORY, &["wgpu error: validation error", "not enough memory left"]),
    (POISONED, &["parent device is lost"]),
];

const XLA: &[TextRow] = &[(OUT_OF_MEMORY, &["resource_exhausted: out of memory"])];

/// Shared memory of one kernel, which does not depend on the free memory.
const TRITON: &[TextRow] = &[(LOOK_ALIKE, &["out of resource: shared memory"])];

const CPP: &[TextRow] = &[
    // thrust and RMM extend the text of `std::bad_alloc`.
    (OUT_OF_MEMORY, &["cudaerrormemoryallocation: out of memory"]),
    (OUT_OF_MEMORY, &["std::bad_alloc: out_of_memory:"]),
];

/// Debug and Display forms of types that are out of memory, for errors of which only the text is left.
const RUST: &[TextRow] = &[
    (OUT_OF_MEMORY, &["tryreserveerror { kind:"]),
    // The same error of other collections, such as hashbrown's.
    (OUT_OF_MEMORY, &["allocerror { layout: layout { size:"]),
    (OUT_OF_MEMORY, &["memory allocation failed because"]),
    // The three Debug forms of `io::Error`.
    (OUT_OF_MEMORY, &["kind: outofmemory"]),
    (OUT_OF_MEMORY, &["kind(outofmemory)"]),
    // This crate's own type.
    (OUT_OF_MEMORY, &["outofmemory { requested_bytes:"]),
    (OUT_OF_MEMORY, &["out of memory: tried to allocate"]),
    (OUT_OF_MEMORY, &["out of memory: checkpoint "]),
];
