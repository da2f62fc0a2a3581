//! Memory of another process: as Linux reports it, and as its allocator or garbage collector counts it.

/// Reads the bytes that this process has allocated and not freed; `None` in a build that does not count them.
pub type LiveHeap = Option<fn() -> usize>;

/// Memory of a server that has nothing to do.
///
/// A peer in Go has collected its garbage and has given unused memory back to the system. Ours gives back what glibc
/// does by itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Footprint {
    /// Resident memory, in bytes.
    pub(crate) resident: u64,
    /// Bytes of the objects that are in use, without the overhead of the allocator; `None` if they are not counted.
    pub(crate) live: Option<u64>,
}

impl Footprint {
    /// Growth since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let live = self.live.zip(earlier.live);
        Self {
            resident: self.resident.saturating_sub(earlier.resident),
            live: live.map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The live heap; an error if it is not counted.
    pub(crate) fn live(self) -> Result<u64, String> {
        self.live
            .ok_or_else(|| "the live heap was not counted".to_owned())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_live_heap_that_was_not_counted_is_an_error() {
        let plain = Footprint {
            resident: 30,
            live: None,
        };
        let counted = Footprint {
            resident: 50,
            live: Some(40),
        };
        let earlier = Footprint {
            resident: 10,
            live: Some(15),
        };
        assert_eq!(counted.since(earlier).live(), Ok(25));
        assert_eq!(counted.since(earlier).resident, 40);
        assert!(plain.live().is_err());
        assert!(plain.since(earlier).live().is_err());
        assert!(counted.since(plain).live().is_err());
    }
}
