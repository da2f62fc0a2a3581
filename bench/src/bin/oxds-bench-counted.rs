//! The same program with an allocator that counts: the roles whose live heap is measured.
//!
//! Counting costs an atomic operation per allocation and one per release, so times are never measured in this program.

use std::alloc::System;
use std::process::ExitCode;

use cap::Cap;

/// The system's allocator, as in `oxds`, without a limit.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn main() -> ExitCode {
    oxds_bench::main(Some(|| ALLOCATOR.allocated()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_allocator_counts_live_bytes() {
        const BYTES: usize = 64 << 20;
        let before = ALLOCATOR.allocated();
        let held = vec![0_u8; BYTES];
        // Other threads of the test program allocate little.
        let grown = ALLOCATOR.allocated() - before;
        assert!((BYTES..BYTES + (1 << 20)).contains(&grown), "{grown}");
        drop(held);
        assert!(ALLOCATOR.allocated() < before + (1 << 20));
    }
}
