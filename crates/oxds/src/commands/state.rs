//! The folder for state that survives a restart.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use oxds_types::Version;

use super::files::resolved;
use crate::exit::Failure;

/// Returns the file for one sort of state of a server of this folder. Servers of different folders have different
/// files. Without `folder` it is in the folder for state of the system or the user; `None` if neither is known.
pub(super) fn file(folder: Option<&Path>, served: &Path, name: &str) -> Option<PathBuf> {
    // Links are not resolved: the folder may be missing, and a link that was turned over is the same folder.
    let served = std::path::absolute(served).unwrap_or_else(|_| served.to_owned());
    let served: PathBuf = served.components().collect();
    in_folder(folder, served.as_os_str().as_encoded_bytes(), name)
}

fn in_folder(folder: Option<&Path>, source: &[u8], name: &str) -> Option<PathBuf> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => default_folder(|variable| std::env::var_os(variable))?,
    };
    Some(folder.join(format!("{name}-{}", Version::of(source))))
}

/// Checks that the folder for state is not in the served one, where each save would be an event.
pub(super) fn check(served: &Path, folder: &Path) -> Result<(), Failure> {
    let unusable = |error| Failure::usage(format_args!("--state: {}: {error}", folder.display()));
    let inside = resolved(folder).map_err(unusable)?;
    if !inside.starts_with(resolved(served).map_err(unusable)?) {
        return Ok(());
    }
    let (served, folder) = (served.display(), folder.display());
    Err(Failure::usage(format_args!(
        "--state: {folder} is in the served folder {served}: expected a separate folder"
    )))
}

/// Returns the default folder: that of systemd (`StateDirectory=`), or that of the XDG Base Directory Specification.
fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty());
    // systemd.exec: several folders are separated by colons.
    let first = |folders: OsString| std::env::split_paths(&folders).next();
    let state = path("STATE_DIRECTORY").and_then(first);
    state
        .or_else(|| Some(Path::new(&path("XDG_STATE_HOME")?).join("oxds")))
        .or_else(|| Some(Path::new(&path("HOME")?).join(".local/state/oxds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_in_the_first_known_folder() {
        let folder = |variables: &[(&str, &str)]| {
            default_folder(|name| {
                let known = variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| value.into())
            })
        };
        let all = [
            ("STATE_DIRECTORY", "/var/lib/oxds:/var/lib/other"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/home/me"),
        ];
        assert_eq!(folder(&all), Some("/var/lib/oxds".into()));
        assert_eq!(folder(&all[1..]), Some("/state/oxds".into()));
        assert_eq!(folder(&all[2..]), Some("/home/me/.local/state/oxds".into()));
        assert_eq!(folder(&[("HOME", "")]), None);
    }

    #[test]
    fn servers_of_two_folders_have_two_files() {
        let file = |served: &str| file(Some(Path::new("/s")), Path::new(served), "rollbacks");
        assert_ne!(file("/one"), file("/two"));
        assert_eq!(file("/one"), file("/one/"));
        let name = file("/one").unwrap();
        assert!(name.starts_with("/s/") && name.to_string_lossy().contains("/rollbacks-"));
    }
}
