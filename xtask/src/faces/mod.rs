//! Names that oxds shows are made of words of the glossary, and of terms of xDS, gRPC, Prometheus and the operating
//! system.
//!
//! ```text
//!   metrics and labels of docs/metrics.md ─┐
//!   fields of log lines, docs/logging.md ──┤                  glossary of ARCHITECTURE.md
//!   fields of types that become JSON ──────┴▶ names ▶ words ▶ in ┤
//!                                                             terms.txt, by their sources
//! ```
//! A new word needs a row in the glossary, or a place in `terms.txt`. The names that a running server shows are checked
//! against the same words by `crates/oxds/tests/it/faces.rs`.

mod source;
mod vocabulary;

use crate::repository::read;
use source::Names;
use vocabulary::Vocabulary;

/// Returns the names that have a word which is in neither list.
pub(crate) fn check() -> Vec<String> {
    let vocabulary = Vocabulary::new(&read("ARCHITECTURE.md"), &read("xtask/src/faces/terms.txt"));
    let mut names = source::names();
    names.extend(documented());
    let mut findings = unknown(&vocabulary, &names);
    if names.len() < 300 {
        findings.push(format!("only {} names found", names.len()));
    }
    findings
}

/// Returns a finding for each name with unknown words.
fn unknown(vocabulary: &Vocabulary, names: &Names) -> Vec<String> {
    let unknown = names.iter().filter_map(|(name, place)| {
        let words = vocabulary.unknown(name);
        (!words.is_empty()).then(|| {
            let words = words.join(", ");
            format!("{place}: name `{name}`: neither in the glossary nor a term: {words}")
        })
    });
    unknown.collect()
}

/// Returns metrics and labels of the pages about metrics, and the fields of the page about log lines.
fn documented() -> Names {
    let mut names = Names::new();
    let mut add = |cells: &[&str], page: &str| {
        let quoted = cells
            .iter()
            .flat_map(|cell| cell.split('`').skip(1).step_by(2));
        names.extend(quoted.map(|name| (name.to_owned(), page.to_owned())));
    };
    let rows = |page: &str, begin: &str| -> Vec<Vec<String>> {
        let text = read(page);
        let rows = text.lines().filter(|line| line.starts_with(begin));
        rows.map(|row| row.split('|').map(str::to_owned).collect())
            .collect()
    };
    for row in rows("docs/metrics.md", "| `oxds") {
        add(&[&row[1], &row[3]], "docs/metrics.md");
    }
    for level in ["| error | `", "| warn | `", "| info | `", "| debug | `"] {
        for row in rows("docs/logging.md", level) {
            add(&[&row[3]], "docs/logging.md");
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "| word | meaning |\n|---|---|\n| resource type | cluster, listener |\n| held back | delayed |\n";
    const TERMS: &str = "# comment\nxDS protocol: nonce version\nPrometheus: total\n";

    #[test]
    fn name_with_an_unknown_word_is_a_finding() {
        let vocabulary = Vocabulary::new(GLOSSARY, TERMS);
        let names = ["resource_types", "held_back_total", "nonce", "kind_total"];
        let names = names.map(|name| (name.to_owned(), "place".to_owned()));
        let findings = unknown(&vocabulary, &names.into());
        assert_eq!(
            findings,
            ["place: name `kind_total`: neither in the glossary nor a term: kind"]
        );
    }

    #[test]
    fn names_of_json_and_log_lines_are_found_in_sources() {
        let text = r##"
            #[derive(Debug, Serialize)]
            struct Status { #[serde(rename = "type")] resource_type: String, nacked: u64, #[serde(skip)] inner: u8 }
            #[derive(Debug)]
            struct Inner { secret: u8 }
            fn log() {
                warn!(target: "oxds", %peer, ?self.state, names = a(b, c), "an event, with = text");
                json!({ "at": 1, "deep": { "er": "value" } });
            }
            mod tests { #[derive(Serialize)] struct Unseen { unseen: u8 } }
        "##;
        let found = source::names_of(text);
        assert_eq!(found.json, ["type", "nacked", "at", "deep", "er"]);
        assert_eq!(found.logs, ["peer", "state", "names"]);
    }
}
