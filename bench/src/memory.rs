//! Memory of another process, as Linux reports it.

/// Resident memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    /// Peak since the process started or [`forget_peak`] was called.
    pub(crate) peak: u64,
}

impl Memory {
    pub(crate) fn of(process: u32) -> Result<Self, String> {
        let path = format!("/proc/{process}/status");
        let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
                .map(|kib| kib * 1024)
                .ok_or_else(|| format!("{path}: no {field}"))
        };
        Ok(Self {
            resident: bytes("VmRSS:")?,
            peak: bytes("VmHWM:")?,
        })
    }
}

pub(crate) fn forget_peak(process: u32) -> Result<(), String> {
    // proc(5): 5 resets the peak to the resident memory.
    let path = format!("/proc/{process}/clear_refs");
    std::fs::write(&path, "5").map_err(|error| format!("{path}: {error}"))
}

/// Mebibytes, for people.
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
