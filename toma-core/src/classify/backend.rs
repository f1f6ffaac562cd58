//! One table per backend: the texts that decide, and what they mean.
//!
//! The texts are library output, collected from the sources and bug reports of each backend. They
//! are written as [`normalized`](super::text::normalized) writes a text: lower case, no line breaks,
//! no double quotes, so that they match inside a Debug form too.

use super::Class;

/// Texts that decide together.
pub(super) struct Row {
    parts: &'static [&'static str],
    place: Place,
    class: Class,
}

/// Where the parts of a row have to stand.
enum Place {
    /// Each somewhere in the message.
    Anywhere,
    /// At the message's end, with nothing before it or only what introduces it. For words that
    /// anybody may use in a sentence.
    Alone,
}

/// The class of a normalized text, when any table knows it.
///
/// Of several rows that match, the one whose class stands highest in [`precedence`] decides.
pub(super) fn class_of(said: &str) -> Option<Class> {
    let matching = TABLES.iter().copied().flatten().filter(|row| row.matches(said));
    matching.map(|row| row.class).max_by_key(|class| precedence(*class))
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

impl Row {
    pub(super) fn matches(&self, said: &str) -> bool {
        self.parts.iter().all(|part| match self.place {
            Place::Anywhere => said.contains(part),
            Place::Alone => stands_alone(said, part),
        })
    }
}

fn stands_alone(said: &str, part: &str) -> bool {
    let said = said.trim_end_matches([' ', ')', ']', '}', '\'', '`', '.', ',']);
    said.strip_suffix(part).is_some_and(|before| {
        let before = before.trim_end();
        before.is_empty() || before.ends_with([':', '(', '[', '{', '=', '\'', '`'])
    })
}

pub(super) const TABLES: &[&[Row]] = &[
    TORCH,
    CUDA,
    CUDA_LIBRARIES,
    NCCL,
    ONEDNN,
    INTEL,
    CUDARC,
    CUBECL,
    ONNX_RUNTIME,
    WGPU,
    XLA,
    TRITON,
    CPP,
    RUST,
];

const TORCH: &[Row] = &[
    out_of_memory(&["cuda out of memory."]),
    out_of_memory(&["hip out of memory."]),
    out_of_memory(&["xpu out of memory."]),
    out_of_memory(&["mps backend out of memory"]),
    // Only buffers beyond Metal's limit of several GB; without a unit it is somebody's length check.
    out_of_memory(&["invalid buffer size:", " gb"]),
    out_of_memory(&["invalid buffer size:", " gib"]),
    out_of_memory(&["allocation on device", "would exceed allowed memory"]),
    out_of_memory(&["cuda driver error: out of memory"]),
    out_of_memory(&["cuda runtime error (2) : out of memory"]),
    out_of_memory(&["defaultcpuallocator: can't allocate memory"]),
    out_of_memory(&["defaultcpuallocator: not enough memory"]),
    out_of_memory(&["oom trying to allocate workspace for cublaslt"]),
    out_of_memory(&["not enough memory for workspace!"]),
    out_of_memory(&["unable to find a valid cudnn algorithm to run convolution"]),
    out_of_memory(&["find was unable to find an engine"]),
    out_of_memory(&["get was unable to find an engine"]),
    transient(&["nvml_success == r internal assert failed"]),
    look_alike(&["storage size calculation overflowed"]),
    look_alike(&["alloc_cpu() seems to have been called with negative number"]),
    // A warning: the program goes on without NNPACK.
    look_alike(&["could not initialize nnpack!"]),
];

/// What the CUDA and HIP runtimes say, whoever passes it on.
const CUDA: &[Row] = &[
    out_of_memory(&["cuda error: out of memory"]),
    out_of_memory(&["hip error: out of memory"]),
    poisoned(&["an illegal memory access was encountered"]),
    poisoned(&["device-side assert triggered"]),
    poisoned(&["unspecified launch failure"]),
    poisoned(&["misaligned address"]),
    poisoned(&["an illegal instruction was encountered"]),
    poisoned(&["hardware stack error"]),
    poisoned(&["uncorrectable ecc"]),
    poisoned(&["uncorrectable nvlink"]),
    poisoned(&["the launch timed out and was terminated"]),
    poisoned(&["operation not supported on global/shared address space"]),
    poisoned(&["invalid program counter"]),
    look_alike(&["cuda error: invalid argument"]),
    look_alike(&["invalid configuration argument"]),
    look_alike(&["too many resources requested for launch"]),
];

const CUDA_LIBRARIES: &[Row] = &[
    out_of_memory(&["cublas_status_alloc_failed"]),
    out_of_memory(&["cusolver_status_alloc_failed"]),
    out_of_memory(&["cufft_alloc_failed"]),
    out_of_memory(&["cusparse_status_alloc_failed"]),
    out_of_memory(&["cusparse_status_insufficient_resources"]),
    // libtorch prints cuSPARSE's descriptions instead of the names.
    out_of_memory(&["resource allocation failed when calling", "cusparse"]),
    out_of_memory(&["insufficient resources when calling", "cusparse"]),
    out_of_memory(&["cudnn_status_alloc_failed"]),
    out_of_memory(&["cudnn_status_internal_error_host_allocation_failed"]),
    out_of_memory(&["cudnn_status_internal_error_device_allocation_failed"]),
    // The workspace, or tensors beyond 2^31 elements: smaller batches cure both.
    out_of_memory(&["cudnn_status_not_supported. this error may appear"]),
    // magma
    out_of_memory(&["cannot allocate memory on gpu device"]),
    transient(&["cublas_status_not_initialized", "cublascreate"]),
    transient(&["cublas_status_not_initialized", "cublasltcreate"]),
    transient(&["cublas_status_internal_error"]),
    transient(&["cudnn_status_internal_error"]),
    look_alike(&["cublas_status_execution_failed"]),
];

/// A collective must not be tried again on one rank alone: the other ranks would wait forever.
const NCCL: &[Row] = &[
    look_alike(&["cuda failure 2 'out of memory"]),
    look_alike(&["cuda failure 'out of memory"]),
    look_alike(&["ncclunhandledcudaerror"]),
    look_alike(&["failed to cuda calloc"]),
];

const ONEDNN: &[Row] =
    &[transient(&["could not create a memory object"]), transient(&["could not execute a primitive"])];

const INTEL: &[Row] = &[
    out_of_memory(&["ur_result_error_out_of_device_memory"]),
    out_of_memory(&["ur_result_error_out_of_host_memory"]),
];

/// Also what candle prints.
const CUDARC: &[Row] = &[
    out_of_memory(&["cuda_error_out_of_memory"]),
    poisoned(&["cuda_error_ecc_uncorrectable"]),
    poisoned(&["cuda_error_nvlink_uncorrectable"]),
    poisoned(&["cuda_error_contained"]),
    poisoned(&["cuda_error_illegal_address"]),
    poisoned(&["cuda_error_launch_timeout"]),
    poisoned(&["cuda_error_context_is_destroyed"]),
    poisoned(&["cuda_error_assert"]),
    poisoned(&["cuda_error_hardware_stack_error"]),
    poisoned(&["cuda_error_illegal_instruction"]),
    poisoned(&["cuda_error_misaligned_address"]),
    poisoned(&["cuda_error_invalid_address_space"]),
    poisoned(&["cuda_error_invalid_pc"]),
    poisoned(&["cuda_error_launch_failed"]),
    poisoned(&["cuda_error_tensor_memory_leak"]),
    poisoned(&["cuda_error_mps_client_terminated"]),
    poisoned(&["cuda_error_external_device"]),
];

/// Also what burn prints.
const CUBECL: &[Row] = &[
    out_of_memory(&["out of device memory allocating"]),
    out_of_memory(&["an out-of-memory error happened during launch"]),
    out_of_memory(&["can't allocate buffer of size:"]),
    out_of_memory(&["can't allocate", "bytes: every page size"]),
    out_of_memory(&["no pool handles allocation of size"]),
];

const ONNX_RUNTIME: &[Row] = &[
    out_of_memory(&["failed to allocate memory for requested buffer of size"]),
    out_of_memory(&["cuda failure 2: out of memory"]),
    out_of_memory(&["is smaller than requested bytes of"]),
];

const WGPU: &[Row] = &[out_of_memory(&["wgpu error: out of memory"])];

const XLA: &[Row] = &[out_of_memory(&["resource_exhausted: out of memory"])];

/// Shared memory of one kernel, which has nothing to do with how much is free.
const TRITON: &[Row] = &[look_alike(&["out of resource: shared memory"])];

const CPP: &[Row] = &[
    Row { parts: &["std::bad_alloc"], place: Place::Alone, class: Class::OutOfMemory },
    // Our own words, when only they are left of the type.
    Row { parts: &["out of memory"], place: Place::Alone, class: Class::OutOfMemory },
    // thrust and RMM say more after it.
    out_of_memory(&["cudaerrormemoryallocation: out of memory"]),
    out_of_memory(&["std::bad_alloc: out_of_memory:"]),
];

/// Debug and Display forms of types that are out of memory by type, where only the text is left.
const RUST: &[Row] = &[
    out_of_memory(&["tryreserveerror { kind:"]),
    // The same of other collections, such as hashbrown's.
    out_of_memory(&["allocerror { layout: layout { size:"]),
    out_of_memory(&["memory allocation failed because"]),
    // The three Debug forms of `io::Error`.
    out_of_memory(&["kind: outofmemory"]),
    out_of_memory(&["kind(outofmemory)"]),
    // Our own type.
    out_of_memory(&["outofmemory { requested_bytes:"]),
    out_of_memory(&["out of memory: tried to allocate"]),
];

const fn out_of_memory(parts: &'static [&'static str]) -> Row {
    Row { parts, place: Place::Anywhere, class: Class::OutOfMemory }
}

const fn transient(parts: &'static [&'static str]) -> Row {
    Row { parts, place: Place::Anywhere, class: Class::Transient }
}

const fn poisoned(parts: &'static [&'static str]) -> Row {
    Row { parts, place: Place::Anywhere, class: Class::Poisoned }
}

const fn look_alike(parts: &'static [&'static str]) -> Row {
    Row { parts, place: Place::Anywhere, class: Class::Other }
}
