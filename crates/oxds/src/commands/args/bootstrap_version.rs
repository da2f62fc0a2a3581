//! The option `--bootstrap-version` of commands that are clients, and `--oldest-version` of the server: whether the
//! previous major of the API may be used (V-48, V-61).

use oxds_client::Bootstrap;
use oxds_types::ApiVersion;
use oxds_types::identity::{Major, Majors};

use crate::exit::Failure;

/// The option.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BootstrapVersion {
    /// Oldest major of the API that the client may use, 2 or 3. With 2, it uses v2, the previous major, for `AUTO`
    /// servers of the bootstrap that lack v3; with 3, they are an error [default: 3]
    #[arg(long = "bootstrap-version", value_name = "MAJOR", value_parser = majors)]
    majors: Option<Majors>,
}

impl BootstrapVersion {
    /// Checks that the client may use a major of the API that each server of a bootstrap supports.
    pub(crate) fn check(&self, bootstrap: &Bootstrap) -> Result<(), Failure> {
        let current = || [Major::V3].into_iter().collect();
        let allowed = self.majors.clone().unwrap_or_else(current);
        bootstrap.check_majors(&allowed).map_err(|none| {
            Failure::usage(none).hint(
                "v2 is the previous major: --bootstrap-version 2, or transport_api_version \"V2\" in the bootstrap allows it",
            )
        })
    }
}

/// Parses the oldest major that may be used.
pub(crate) fn oldest(text: &str) -> Result<ApiVersion, String> {
    match text {
        "2" => Ok(ApiVersion::V2),
        "3" => Ok(ApiVersion::V3),
        _ => Err("expected 2 or 3, the majors of this version of oxds".to_owned()),
    }
}

/// Parses the oldest major that may be used, and returns the majors from there on.
fn majors(text: &str) -> Result<Majors, String> {
    let all = [Major::V2, Major::V3];
    let oldest = match oldest(text)? {
        ApiVersion::V2 => 0,
        ApiVersion::V3 => 1,
    };
    Ok(all.into_iter().skip(oldest).collect())
}
