//! Collects the test cases of the rules (`testdata/RULE/…`) in one table, so that `explain` can print them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("testdata");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut table = String::from("&[\n");
    for rule in sorted(&root)? {
        let name = file_name(&rule);
        // Folders of rules have upper-case names. Other entries are not cases.
        if !rule.is_dir() || name.chars().any(|c| c.is_ascii_lowercase()) {
            continue;
        }
        let mut files = Vec::new();
        gather(&rule, &mut files)?;
        for file in files {
            let below = file.strip_prefix(&rule).unwrap_or(&file);
            let below = below.to_string_lossy().replace('\\', "/");
            let _ = writeln!(table, "({name:?}, {below:?}, include_str!({file:?})),");
        }
    }
    table.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("cases.rs"), table)
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for path in sorted(folder)? {
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "proto") {
            files.push(path);
        }
    }
    Ok(())
}

fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
