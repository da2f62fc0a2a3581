//! Two proto files as two states of a tree: findings in every format, never a panic, and no finding between a tree and
//! itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxds_apicheck::check::{Settings, breaking, check};
use oxds_apicheck::model::Tree;
use oxds_apicheck::report::{Format, Report, Style};

fuzz_target!(|texts: (&str, &str)| {
    let read = |text| Tree::parse([("a.proto", text)]);
    let (Ok(old), Ok(new)) = (read(texts.0), read(texts.1)) else {
        return;
    };
    let settings = Settings::default();
    assert!(breaking(&old, &old, &settings).is_empty());
    let findings = check(&old, &new, (None, None), &settings);
    let report = Report::new(findings, Some(&old), Some(&new), None);
    let mut style = Style::default();
    style.terminal = false;
    style.snippets = true;
    for format in [Format::Text, Format::Json, Format::Sarif, Format::Junit] {
        assert!(!report.render(format, style).is_empty());
    }
});
