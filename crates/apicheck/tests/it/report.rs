//! Reports in every format, and exceptions.

use std::collections::BTreeSet;
use std::path::Path;

use oxds_apicheck::check::{Settings, breaking};
use oxds_apicheck::config::{Config, Earlier, with_exceptions};
use oxds_apicheck::finding::{Finding, Language, Severity};
use oxds_apicheck::model::Tree;
use oxds_apicheck::parse::Text;
use oxds_apicheck::report::{Format, Report, Style};
use serde_json::Value;

const OLD: &str = "syntax = \"proto3\";\npackage shop.v1;\n\nmessage Order {\n  string id = 1;\n  int32 count = 2;\n}\n";

fn tree(text: &str) -> Tree {
    Tree::parse([("shop/v1/order.proto", text)]).unwrap()
}

fn report(new: &str) -> Report {
    let (old, new) = (tree(OLD), tree(new));
    let findings = breaking(&old, &new, &Settings::default());
    Report::new(
        findings,
        Some(&old),
        Some(&new),
        Some("this against that".to_owned()),
    )
}

/// Returns `OLD` with `count` as a string.
fn retyped() -> String {
    OLD.replace("int32 count", "string count")
}

fn json(report: &Report, format: Format) -> Value {
    serde_json::from_str(&report.render(format, Style::default())).unwrap()
}

#[test]
fn text_starts_with_a_grep_line_and_shows_both_sides() {
    let mut style = Style::default();
    style.terminal = false;
    style.snippets = true;
    let text = report(&retyped()).render(Format::Text, style);
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with(
            "shop/v1/order.proto:6:10: error[FIELD_TYPE_CHANGED] shop.v1.Order.count: "
        ),
        "{text}"
    );
    assert!(
        text.contains("int32 count = 2;") && text.contains("string count = 2;"),
        "{text}"
    );
    assert_eq!(
        text.lines().last().unwrap(),
        "1 breaking: this against that"
    );
    assert!(text.is_ascii(), "{text}");
    let clean = report(OLD).render(Format::Text, style);
    assert_eq!(clean, "no findings: this against that\n");
}

#[test]
fn json_contains_the_keys_of_buf() {
    let report = report(&retyped());
    let document = json(&report, Format::Json);
    assert_eq!(document["form"], 1);
    let finding = &document["findings"][0];
    for (key, value) in [
        ("path", "shop/v1/order.proto"),
        ("type", "FIELD_TYPE_CHANGED"),
        ("rule", "FIELD_TYPE_CHANGED"),
        ("severity", "error"),
        ("category", "wire"),
        ("element", "shop.v1.Order.count"),
    ] {
        assert_eq!(finding[key], value, "{finding}");
    }
    assert_eq!(
        (&finding["start_line"], &finding["old"]["start_line"]),
        (&6.into(), &6.into())
    );
    let line = report.render(Format::Jsonl, Style::default());
    assert_eq!(
        serde_json::from_str::<Value>(line.trim_end()).unwrap(),
        *finding
    );
}

#[test]
fn fingerprint_is_independent_of_lines() {
    let print = |new: &str| json(&report(new), Format::Json)["findings"][0]["fingerprint"].clone();
    let here = print(&retyped());
    assert_eq!(
        here,
        print(&retyped().replace("message", "\n\n// Moved.\nmessage"))
    );
    assert_ne!(here, print(&OLD.replace("int32 count", "bytes count")));
}

#[test]
fn sarif_contains_rule_location_and_old_location() {
    let log = json(&report(&retyped()), Format::Sarif);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let result = &run["results"][0];
    let rule = &run["tool"]["driver"]["rules"][0];
    assert_eq!(
        (&rule["id"], &result["ruleId"]),
        (&"FIELD_TYPE_CHANGED".into(), &rule["id"])
    );
    assert!(
        rule["helpUri"]
            .as_str()
            .unwrap()
            .ends_with("#field_type_changed")
    );
    assert_eq!(
        (&result["level"], &result["ruleIndex"]),
        (&"error".into(), &0.into())
    );
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "shop/v1/order.proto");
    assert_eq!(place["region"]["startLine"], 6);
    assert_eq!(result["relatedLocations"][0]["message"]["text"], "was");
    assert_eq!(
        result["partialFingerprints"]["ruleAndElement/v1"]
            .as_str()
            .unwrap()
            .len(),
        32
    );
}

#[test]
fn every_format_escapes_special_characters() {
    let hostile = "a,b:c%\n\"<&>'|\u{1}ü";
    let mut finding = report(&retyped()).findings()[0].clone();
    finding.element = hostile.to_owned();
    finding.message = hostile.to_owned();
    finding.new.as_mut().unwrap().path = hostile.to_owned();
    let report = Report::new(vec![finding], None, None, None);
    assert_eq!(
        json(&report, Format::Json)["findings"][0]["element"],
        hostile
    );
    let sarif = json(&report, Format::Sarif);
    let uri = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        ["uri"];
    assert_eq!(uri, "a%2Cb%3Ac%25%0A%22%3C%26%3E%27%7C%01%C3%BC");
    assert_eq!(
        json(&report, Format::Gitlab)[0]["location"]["path"],
        hostile
    );
    let github = report.render(Format::Github, Style::default());
    assert!(
        github.starts_with("::error title=FIELD_TYPE_CHANGED,file=a%2Cb%3Ac%25%0A\"<&>'|"),
        "{github}"
    );
    assert_eq!(github.lines().count(), 2);
    let junit = report.render(Format::Junit, Style::default());
    assert!(
        junit.contains("a,b:c%&#10;&quot;&lt;&amp;&gt;'|\u{fffd}ü"),
        "{junit}"
    );
    assert_eq!(
        report
            .step_summary()
            .lines()
            .last()
            .unwrap()
            .matches(" | ")
            .count(),
        2
    );
}

#[test]
fn exempt_finding_is_counted_but_does_not_fail() {
    let (old, new) = (tree(OLD), tree(&retyped()));
    let mut findings = breaking(&old, &new, &Settings::default());
    findings[0].exempt = Some("work in progress".to_owned());
    let report = Report::new(findings, Some(&old), Some(&new), None);
    assert!(!report.fails_at(Severity::Note));
    assert_eq!(report.summary(), "1 exempt (work in progress)");
    assert_eq!(
        report.render(Format::Text, Style::default()),
        "1 exempt (work in progress)\n"
    );
    assert_eq!(json(&report, Format::Gitlab).as_array().unwrap().len(), 0);
}

#[test]
fn findings_about_other_languages_are_dropped() {
    let new = OLD.replace(
        "package shop.v1;",
        "package shop.v1;\noption java_package = \"com.shop\";",
    );
    let (old, new) = (tree(OLD), tree(&new));
    let count = |languages: &[Language]| {
        let mut settings = Settings::default();
        settings.languages = BTreeSet::from_iter(languages.iter().copied());
        breaking(&old, &new, &settings).len()
    };
    assert_eq!(
        (count(&[]), count(&[Language::Java]), count(&[Language::Go])),
        (1, 1, 0)
    );
}

fn excepted(yaml: &str, today: &str) -> Vec<Finding> {
    let (old, new) = (tree(OLD), tree(&retyped()));
    let mut findings = breaking(&old, &new, &Settings::default());
    let config = Config::parse(Path::new("oxds-api.yaml"), yaml).unwrap();
    let today = today.parse().unwrap();
    config.except(&mut findings, today);
    findings.extend(config.left_over(&findings, today, Earlier::default()));
    findings
}

const ALLOW: &str = "allow:\n- rule: FIELD_TYPE_CHANGED\n  element: shop.v1.Order.count\n  reason: unused\n  owner: shop\n  expires: 2027-03-31\n";

#[test]
fn exception_exempts_one_finding_until_its_expiry() {
    let findings = excepted(ALLOW, "2027-03-31");
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].exempt.as_deref(), Some("exception: unused"));

    let findings = excepted(ALLOW, "2027-04-01");
    assert_eq!(findings[0].exempt, None);
    assert_eq!(findings[1].rule.id, "EXCEPTION_EXPIRED");
    let at = findings[1].new.as_ref().unwrap().to_string();
    assert_eq!(at, "oxds-api.yaml:2:3");

    let findings = excepted(&ALLOW.replace("count", "id"), "2027-01-01");
    assert_eq!(
        (findings[0].exempt.clone(), findings[1].rule.id),
        (None, "EXCEPTION_UNUSED")
    );
    let other_value = ALLOW.replace("  reason", "  new: bytes\n  reason");
    assert_eq!(
        excepted(&other_value, "2027-01-01")[1].rule.id,
        "EXCEPTION_UNUSED"
    );
}

#[test]
fn merged_exception_lives_until_its_date_or_a_release() {
    let today = "2027-01-01".parse().unwrap();
    let config = |yaml: &str| Config::parse(Path::new("oxds-api.yaml"), yaml).unwrap();
    let dated = config(ALLOW);
    let undated = config(&ALLOW.replace("  expires: 2027-03-31\n", ""));
    let none = config("");
    let left = |config: &Config, base: &Config, release: Option<&Config>| {
        let mut earlier = Earlier::default();
        earlier.base = Some(base);
        earlier.release = release.map(|then| ("1.2.0", then));
        // The change that it was written for is merged, so there is no finding.
        let left = config.left_over(&[], today, earlier);
        let line = |one: &Finding| (one.severity, one.rule.id, one.message.clone());
        left.iter().map(line).collect::<Vec<_>>()
    };
    let unused = "matches no finding of FIELD_TYPE_CHANGED";
    let error = |rest: &str| {
        (
            Severity::Error,
            "EXCEPTION_UNUSED",
            format!("{unused}{rest}"),
        )
    };
    // given an exception that the change itself adds, then it must match something
    assert_eq!(left(&undated, &none, None), [error("; owner: shop")]);
    assert_eq!(left(&dated, &none, None), [error("; owner: shop")]);
    // given a merged one, then it lives until its date
    assert_eq!(left(&dated, &dated, Some(&dated)), []);
    // or until the next release
    let note = format!("{unused} any more: remove it after the next release");
    let note = [(Severity::Note, "EXCEPTION_UNUSED", note)];
    assert_eq!(left(&undated, &undated, None), note);
    assert_eq!(left(&undated, &undated, Some(&none)), note);
    assert_eq!(
        left(&undated, &undated, Some(&undated)),
        [error(" since release 1.2.0; owner: shop")]
    );
}

#[test]
fn removed_field_counts_as_breaking_in_the_summary() {
    let old = tree(OLD);
    let new = tree(&OLD.replace("int32 count = 2;", "reserved 2; reserved \"count\";"));
    let findings = breaking(&old, &new, &Settings::default());
    let report = Report::new(findings, Some(&old), Some(&new), None);
    assert_eq!(report.summary(), "1 breaking");
}

#[test]
fn texts_of_sources_cannot_control_the_terminal() {
    let old = OLD.replace("int32 count = 2;", "int32 count = 2; // \u{1b}[2J \u{202e}");
    let new = old.replace("int32 count", "string count");
    let (old, new) = (tree(&old), tree(&new));
    let mut findings = breaking(&old, &new, &Settings::default());
    findings[0]
        .message
        .push_str("\u{1b}]0;title\u{7}\n::error::forged");
    let report = Report::new(findings, Some(&old), Some(&new), None);
    for terminal in [false, true] {
        let mut style = Style::default();
        style.terminal = terminal;
        style.snippets = true;
        let text = report.render(Format::Text, style);
        assert!(text.contains("string count"), "{text}");
        assert!(
            !text.contains("\u{1b}[2J") && !text.contains('\u{202e}'),
            "{text:?}"
        );
        assert!(
            !text.contains('\u{7}') && !text.contains("\n::error"),
            "{text:?}"
        );
    }
}

#[test]
fn exceptions_written_from_findings_match_them() {
    let findings = excepted("", "2027-01-01");
    let errors: Vec<&Finding> = findings.iter().collect();
    let before = "# Ours.\nprofile: policy\nallow:\nlanguages: [go] # all we have\n";
    let yaml = with_exceptions(before, &errors, "shop", "it is: unused");
    assert!(
        yaml.starts_with("# Ours.\nprofile: policy\nallow:\n- rule: FIELD_TYPE_CHANGED\n"),
        "{yaml}"
    );
    assert!(yaml.ends_with("languages: [go] # all we have\n"), "{yaml}");
    let findings = excepted(&yaml, "2027-01-01");
    assert_eq!(findings.len(), 1);
    assert_eq!(
        findings[0].exempt.as_deref(),
        Some("exception: it is: unused")
    );
}

#[test]
fn configuration_errors_have_locations() {
    let wrong = |yaml: &str| {
        let error = Config::parse(Path::new("oxds-api.yaml"), yaml).unwrap_err();
        error.to_string()
    };
    let allow = |from: &str, to: &str| wrong(&ALLOW.replace(from, to));
    assert_eq!(
        allow("FIELD_TYPE_CHANGED", "FIELD_TIPE_CHANGED"),
        "oxds-api.yaml:2:3: unknown rule FIELD_TIPE_CHANGED: `oxds api explain` lists all rules"
    );
    assert_eq!(
        allow("2027-03-31", "soon"),
        "oxds-api.yaml:2:3: expires: malformed date \"soon\": expected a date such as 2027-03-31"
    );
    assert!(allow("owner: shop", "owner: ''").contains("empty owner"));
    assert!(allow("  reason: unused\n", "").contains("reason"));
    let unknown = wrong("profil: policy\n");
    assert!(
        unknown.starts_with("oxds-api.yaml:1:1: ") && unknown.contains("profil"),
        "{unknown}"
    );
    assert_eq!(
        wrong("languages: [go, cobol]"),
        "oxds-api.yaml:1:17: unknown language \"cobol\": expected cpp, go, java or py"
    );
    assert_eq!(
        wrong("allow: all"),
        "oxds-api.yaml:1:8: expected a list (`- item`)"
    );
    assert!(Config::parse(Path::new("oxds-api.yaml"), "# allow:\n").is_ok());
    assert_eq!(
        wrong("profile: strict"),
        "oxds-api.yaml:1:10: unknown profile \"strict\": expected policy or envoy-today"
    );
}

#[test]
fn only_errors_are_failures_in_junit() {
    let mut findings = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let mut finding = report(&retyped()).findings()[0].clone();
        finding.severity = severity;
        finding.message = format!("is {severity:?} <");
        findings.push(finding);
    }
    let report = Report::new(findings, None, None, None);
    let junit = report.render(Format::Junit, Style::default());
    assert!(
        junit.contains("tests=\"3\" failures=\"1\" errors=\"0\""),
        "{junit}"
    );
    assert_eq!(junit.matches("<failure ").count(), 1, "{junit}");
    for text in [
        "message=\"is Error &lt; [C++, Go, Java, Python]\"/>",
        "<system-out>warning: is Warning &lt; [C++, Go, Java, Python]</system-out>",
        "<system-out>note: is Note &lt; [C++, Go, Java, Python]</system-out>",
    ] {
        assert!(junit.contains(text), "{text}\n{junit}");
    }
}

/// Reads files whose display paths start with `prefix`.
fn displayed(prefix: &str, files: &[(&str, &str)]) -> Tree {
    let texts: Vec<Text> = files
        .iter()
        .map(|(path, body)| {
            let package = path.rsplit_once('/').unwrap().0.replace('/', ".");
            let text = format!("syntax = \"proto3\";\npackage {package};\n{body}\n");
            let mut text = Text::new(path, text.into_bytes());
            text.display = format!("{prefix}{path}").into();
            text
        })
        .collect();
    Tree::read(&texts).unwrap()
}

#[test]
fn removed_elements_are_located_in_the_new_tree() {
    const REST: &str = "message Keep { string id = 1; }";
    let order = |field: &str, nested: &str| {
        format!("message Order {{\n{field}\nstring id = 1;\n{nested}\n}}")
    };
    let status = |value: &str| format!("enum Status {{ NONE = 0;\n{value} }}");
    let store =
        |method: &str| format!("service Store {{ rpc Get(Keep) returns (Keep);\n{method} }}");
    let a = |parts: [&str; 4]| {
        let [field, nested, value, method] = parts;
        let parts = [order(field, nested), status(value), store(method)];
        format!("{}\n{REST}", parts.join("\n"))
    };
    let before = a([
        "string note = 2;",
        "message Item {}",
        "OPEN = 1;",
        "rpc Put(Keep) returns (stream Keep);",
    ]);
    let (before, after) = (format!("{before}\nmessage Gone {{}}"), a([""; 4]));
    let old = displayed(
        "main:",
        &[
            ("shop/v1/a.proto", &before),
            (
                "shop/v1/b.proto",
                "message InB { string x = 1; bool y = 2; }",
            ),
            ("box/v1/box.proto", "message Box {}"),
        ],
    );
    let new = displayed("api/", &[("shop/v1/a.proto", &after)]);
    let findings = breaking(&old, &new, &Settings::default());
    let placed: BTreeSet<String> = findings
        .iter()
        .map(|one| {
            assert!(one.old.as_ref().unwrap().path.starts_with("main:"));
            format!("{} {}", one.element, one.new.as_ref().unwrap())
        })
        .collect();
    let expected = [
        // The package is gone: the former path of its file.
        "box.v1 api/box/v1/box.proto",
        // A file is enclosed by its package.
        "shop/v1/b.proto api/shop/v1/a.proto:2:1",
        "shop.v1.Gone api/shop/v1/a.proto:2:1",
        "shop.v1.Order.note api/shop/v1/a.proto:3:9",
        "shop.v1.Order.Item api/shop/v1/a.proto:3:9",
        "shop.v1.Status.OPEN api/shop/v1/a.proto:8:6",
        "shop.v1.Store.Put api/shop/v1/a.proto:10:9",
    ];
    assert_eq!(placed, expected.map(str::to_owned).into());
    // Annotations have these paths.
    let report = Report::new(findings, Some(&old), Some(&new), None);
    let github = report.render(Format::Github, Style::default());
    assert_eq!(
        github.matches(",file=api/").count(),
        expected.len(),
        "{github}"
    );
    assert!(
        github.contains("file=api/shop/v1/a.proto,line=3,"),
        "{github}"
    );
}
