//! Words that have a plainer one, sentences that begin with a riddle, and names of tests that are hard to read.
//!
//! The rules behind them are in CONTRIBUTING.md, "Language".

use crate::repository::{Tracked, tracked};

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the text as it is: a name with underscores is one word.
    Text,
    /// Also in names: an underscore ends a word.
    Names,
}

/// Alternatives that are looked for as whole words, and what to write instead.
struct Word {
    place: Place,
    alternatives: &'static [&'static str],
    instead: &'static str,
}

const WORDS: &[Word] = &[
    text(&["anew"], "again, newly"),
    text(&["be it"], "whether … or …"),
    text(&["whoever"], "a client that, the caller"),
    text(&["forever", "for ever"], "without end, permanently"),
    text(&["is none"], "is not one, does not exist"),
    text(
        &[
            "that are none",
            "which are none",
            "what are none",
            "this are none",
        ],
        "is not one",
    ),
    text(&["full states", "by differences"], "SotW, delta"),
    text(&["withdrawal", "withdrawn", "taken back"], "rolled back"),
    text(&["meanwhile"], "while …, in the time until …"),
    name(&["of what"], "say what it is"),
    name(&["mend", "mends", "mended", "mending"], "fix, resolve"),
    name(&["remark", "remarks"], "ambient error"),
    name(&["sign of life", "signs of life"], "heartbeat"),
    name(&["nobody"], "no client, no one"),
    name(&["let go", "lets go"], "remove, release"),
    name(&["departed"], "pending removal"),
    name(&["patience"], "hold timer"),
    name(
        &["disclaim", "disclaims", "outdate", "outdates"],
        "initial versions",
    ),
    name(
        &["roster", "enrol", "enrols", "enrolled"],
        "node registry, register",
    ),
    name(
        &["unsaid", "unfit", "untranslatable"],
        "NotRepresentable, Invalid",
    ),
    name(&["mailbox", "mailboxes"], "watcher queue"),
    name(&["journal"], "telemetry"),
];

/// Files with words for people. This file quotes them.
const FILES: [&str; 11] = [
    "*.rs",
    "*.md",
    "*.go",
    "*.py",
    "*.js",
    "*.java",
    "*.sh",
    "*/run",
    ".ci/*",
    "interop/install",
    ":!xtask/src/words.rs",
];

/// Most characters of the name of a test.
const NAME: usize = 60;

const fn text(alternatives: &'static [&'static str], instead: &'static str) -> Word {
    Word {
        place: Place::Text,
        alternatives,
        instead,
    }
}

const fn name(alternatives: &'static [&'static str], instead: &'static str) -> Word {
    Word {
        place: Place::Names,
        alternatives,
        instead,
    }
}

/// Returns the places that leave plain field English.
pub(crate) fn check() -> Vec<String> {
    let files = tracked(&FILES);
    let mut findings: Vec<_> = files.iter().flat_map(words).collect();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        findings.extend(doc_lines(file));
        findings.extend(names_of_tests(file));
    }
    findings
}

fn words(file: &Tracked) -> Vec<String> {
    // `is None` is code.
    let lower = file.text.replace("is None", "is_none").to_ascii_lowercase();
    let apart = lower.replace('_', " ");
    let path = file.path.to_ascii_lowercase().replace('_', " ");
    let mut findings = Vec::new();
    for word in WORDS {
        let text = match word.place {
            Place::Text => &lower,
            Place::Names => &apart,
        };
        for alternative in word.alternatives {
            // Most files have none of them: a search in the whole text is quick.
            let lines = text.contains(alternative).then(|| text.lines().zip(1..));
            let found = lines
                .into_iter()
                .flatten()
                .filter(|(line, _)| has_word(line, alternative));
            let places = found.map(|(_, number)| format!("{}:{number}", file.path));
            let path = has_word(&path, alternative).then(|| file.path.clone());
            let instead = word.instead;
            findings.extend(
                places
                    .chain(path)
                    .map(|place| format!("{place}: \"{alternative}\": write \"{instead}\"")),
            );
        }
    }
    findings
}

/// Whether a line has a text with no letter, digit or underscore at its ends.
fn has_word(line: &str, word: &str) -> bool {
    let is_end = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        is_end(line[..at].chars().next_back()) && is_end(line[at + word.len()..].chars().next())
    })
}

/// Doc lines that begin a sentence with a question's word, or with "It" where nothing was named before.
fn doc_lines(file: &Tracked) -> Vec<String> {
    let mut findings = Vec::new();
    // The doc line before this one: `None` outside of docs.
    let mut before: Option<&str> = None;
    for (line, number) in file.text.lines().zip(1..) {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let doc = doc.map(|text| text.strip_prefix(' ').unwrap_or(text));
        if let Some(text) = doc {
            let begins = |words: &[&str]| {
                let rest = words.iter().find_map(|word| text.strip_prefix(word));
                rest.is_some_and(|rest| rest.starts_with([' ', '.']))
            };
            let ends = |before: &str| before.is_empty() || before.ends_with(['.', ':', '!', '?']);
            let is_riddle = before.is_none_or(ends) && begins(&["What", "Which", "Whose", "Who"]);
            if is_riddle || before.is_none() && begins(&["Its", "It"]) {
                findings.push(format!(
                    "{}:{number}: a doc line begins with What, Which, Who, Whose or It: name the thing, or say what \
                     the function returns: {line}",
                    file.path
                ));
            }
        }
        before = doc;
    }
    findings
}

/// Tests whose names are too long, or begin as a question.
fn names_of_tests(file: &Tracked) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_test = false;
    for (line, number) in file.text.lines().zip(1..) {
        let line = line.trim_start();
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split([']', '(']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
        }
        let function = line.strip_prefix("pub ").unwrap_or(line);
        let function = function.strip_prefix("async ").unwrap_or(function);
        let Some(function) = function.strip_prefix("fn ") else {
            continue;
        };
        if !std::mem::take(&mut is_test) {
            continue;
        }
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let name = function.split(is_end).next().unwrap_or_default();
        let mut words = name.split('_').skip_while(|part| is_number(part));
        let is_question =
            ["what", "who", "whose", "of"].contains(&words.next().unwrap_or_default());
        if name.len() > NAME || is_question {
            findings.push(format!(
                "{}:{number}: {name} has {} characters, at most {NAME} are allowed, or begins (after its numbers) with \
                 what, who or of",
                file.path,
                name.len()
            ));
        }
    }
    findings
}

/// Whether a part of a name is the number of a behaviour: `s17`.
fn is_number(part: &str) -> bool {
    let digits = part.trim_start_matches(|c: char| c.is_ascii_lowercase());
    digits.len() < part.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_as_whole_words() {
        let text = "It starts anew.\nRenewed, a_new\nlet roster_size = 1;\nis_none()\nthere is none\nx is None\nMeanwhile, x\n";
        let found = words(&Tracked::new("src/mailbox.rs", text));
        let places: Vec<_> = found
            .iter()
            .map(|f| f.split(": write").next().unwrap_or_default())
            .collect();
        assert_eq!(
            places,
            [
                "src/mailbox.rs:1: \"anew\"",
                "src/mailbox.rs:5: \"is none\"",
                "src/mailbox.rs:7: \"meanwhile\"",
                "src/mailbox.rs:3: \"roster\"",
                "src/mailbox.rs: \"mailbox\"",
            ]
        );
    }

    #[test]
    fn doc_lines_that_begin_as_a_question_are_found() {
        let text = "/// What it is.\nfn a() {}\n/// A thing,\n/// Which goes on. It\n/// is.\nfn b() {}\n/// It.\nfn c() {}\n\
                    /// The end.\n/// Who knows\n// What now\n/// Itself\n";
        let found = doc_lines(&Tracked::new("a.rs", text));
        let lines: Vec<_> = found.iter().filter_map(|f| f.split(':').nth(1)).collect();
        assert_eq!(lines, ["1", "7", "10"]);
    }

    #[test]
    fn names_of_tests_are_bounded_and_no_questions() {
        let long = "a".repeat(61);
        let text = format!(
            "#[test]\nfn {long}() {{}}\n#[tokio::test(flavor = \"x\")]\nasync fn s17_what_is_sent() {{}}\nfn what_helps() {{}}\n\
             #[test]\nfn s17_names_are_sent() {{}}\n"
        );
        let found = names_of_tests(&Tracked::new("a.rs", &text));
        let lines: Vec<_> = found.iter().filter_map(|f| f.split(':').nth(1)).collect();
        assert_eq!(lines, ["2", "4"]);
    }
}
