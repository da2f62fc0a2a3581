//! Programs that `bench/run` has built or installed.

use std::path::PathBuf;

/// Path of the program that this environment variable names.
pub(crate) fn program(variable: &str) -> Result<PathBuf, String> {
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.is_file() => Ok(path),
        Some(path) => Err(format!(
            "{variable} names {}, which is not a file: use bench/run",
            path.display()
        )),
        None => Err(format!("{variable} is not set: use bench/run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_missing_peer_is_an_error() {
        let missing = program("OXDS_BENCH_NO_SUCH_PEER");
        let error = "OXDS_BENCH_NO_SUCH_PEER is not set: use bench/run".to_owned();
        assert_eq!(missing, Err(error));
        // CARGO_MANIFEST_DIR is a folder.
        let folder = program("CARGO_MANIFEST_DIR").unwrap_err();
        assert!(folder.contains("is not a file"), "{folder}");
    }
}
