//! Crates with proto files, from cargo's home: the unpacked sources, or the downloaded archive.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use prost::bytes::Bytes;

use super::failure::{Unusable, unreadable};
use super::listing::{Listing, is_wanted};

/// Lists the files of a crate.
pub(super) fn listing(name: &str, version: &str) -> Result<Listing, Unusable> {
    let home = cargo_home();
    let full = format!("{name}-{version}");
    if let Some(folder) = below(&home.join("registry/src"), &full) {
        return Listing::folder(&folder);
    }
    let archive = below(&home.join("registry/cache"), &format!("{full}.crate"));
    let archive = archive.ok_or_else(|| Unusable::NotFetched {
        name: name.to_owned(),
        version: version.to_owned(),
        home: home.display().to_string(),
    })?;
    Ok(Listing::memory(full.clone(), unpack(&archive, &full)?))
}

fn cargo_home() -> PathBuf {
    let home = std::env::home_dir().unwrap_or_default();
    std::env::var_os("CARGO_HOME").map_or(home.join(".cargo"), PathBuf::from)
}

/// Returns the path `registry/src/INDEX/NAME`: each registry has its own folder.
fn below(registries: &Path, name: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(registries).ok()?;
    let mut found: Vec<_> = folders
        .filter_map(|folder| Some(folder.ok()?.path().join(name)))
        .filter(|path| path.exists())
        .collect();
    found.sort_unstable();
    found.into_iter().next()
}

fn unpack(archive: &Path, top: &str) -> Result<HashMap<String, Bytes>, Unusable> {
    let wrong = |error: std::io::Error| unreadable(archive, &error);
    let file = std::fs::File::open(archive).map_err(wrong)?;
    let mut files = HashMap::new();
    for entry in tar::Archive::new(GzDecoder::new(file))
        .entries()
        .map_err(wrong)?
    {
        let mut entry = entry.map_err(wrong)?;
        let path = entry.path().map_err(wrong)?.to_string_lossy().into_owned();
        let Some(path) = path
            .strip_prefix(top)
            .map(|path| path.trim_start_matches('/'))
        else {
            continue;
        };
        if is_wanted(path) {
            let path = path.to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(wrong)?;
            files.insert(path, Bytes::from(bytes));
        }
    }
    Ok(files)
}
