//! The list of differences in `docs/conformance-client.md`.

use std::fmt::Write as _;

use super::case::Party;
use super::cases;

/// First line of the list, which is the end of the page.
const TITLE: &str = "## Differences from C-core and grpc-go";

/// The section of the page, from its title to its end.
fn section() -> String {
    let mut text = format!(
        "{TITLE}\n\nThe scenario `differential_clients_nack_the_same` of `interop/` sends the same configurations, valid and slightly wrong, to C-core, \
         grpc-go and oxds. The clients differ about these, and agree about all others.\n\n\
         | configuration | NACKed by | accepted by | rule that decides |\n|---|---|---|---|\n"
    );
    for case in cases() {
        let Some(difference) = case.difference else {
            continue;
        };
        let names = |nacks: bool| {
            let parties = Party::ALL.into_iter();
            let of = parties.filter(|party| difference.nacked_by.contains(party) == nacks);
            let names: Vec<_> = of.map(Party::name).collect();
            names.join(", ")
        };
        let patch = case.patch.replace('|', "\\|");
        let _ = writeln!(
            text,
            "| {}: `{patch}` | {} | {} | {} ({}) |",
            case.target.name(),
            names(true),
            names(false),
            difference.rule,
            case.row,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Compares the page with the cases; writes it when `OXDS_WRITE` is set.
    #[test]
    fn page_lists_the_differences() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance-client.md");
        let page = fs::read_to_string(&path).unwrap();
        let (rows, old) = page.split_once(TITLE).unwrap_or((&page, ""));
        if std::env::var_os("OXDS_WRITE").is_some() {
            fs::write(&path, format!("{}\n\n{}", rows.trim_end(), section())).unwrap();
        } else {
            let old = format!("{TITLE}{old}");
            assert_eq!(old, section(), "out of date: run with OXDS_WRITE=1");
        }
    }
}
