//! `oxds api explain`: explanation of a rule.

use std::fmt::Write as _;

use oxds_apicheck::finding::Severity;
use oxds_apicheck::report::plain;
use oxds_apicheck::rule::Rule;
use oxds_apicheck::rules;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Explain a rule, or list all rules
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Id of the rule, as in findings, or of a rule of buf
    #[arg(value_name = "RULE")]
    rule: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut output = Output::new();
    let Some(id) = &args.rule else {
        for rule in rules::all() {
            output.line(&format!("{:<40} {}", rule.id, rule.purpose))?;
        }
        return Ok(Exit::Success);
    };
    let id = id.to_uppercase();
    if let Some(rule) = rules::find(&id) {
        output.write(&explained(rule))?;
        return Ok(Exit::Success);
    }
    // A rule of buf can have several counterparts.
    let counterparts: Vec<_> = rules::all().filter(|rule| rule.is_called(&id)).collect();
    if counterparts.is_empty() {
        let unknown = Failure::usage(format_args!("unknown rule {}", plain(&id)));
        return Err(unknown.hint("`oxds api explain` lists all rules"));
    }
    let ids: Vec<_> = counterparts.iter().map(|rule| rule.id).collect();
    output.line(&format!("{id} of buf is: {}", ids.join(", ")))?;
    for rule in counterparts {
        output.write(&format!("\n{}", explained(rule)))?;
    }
    Ok(Exit::Success)
}

fn explained(rule: &Rule) -> String {
    let severity = |severity: Option<Severity>| match severity {
        Some(severity) => format!("{severity:?}").to_lowercase(),
        None => "off".to_owned(),
    };
    let mut text = format!("{}\n\n{}.\n\n{}\n\n", rule.id, rule.purpose, rule.why);
    let _ = writeln!(
        text,
        "category     {}",
        format!("{:?}", rule.category).to_lowercase()
    );
    let _ = writeln!(text, "policy       {}", severity(rule.profiles.policy));
    let _ = writeln!(text, "envoy-today  {}", severity(rule.profiles.envoy_today));
    if !rule.behaviours.is_empty() {
        let _ = writeln!(text, "behaviours   {}", rule.behaviours.join(", "));
    }
    if !rule.buf.is_empty() {
        let _ = writeln!(text, "buf          {}", rule.buf.join(", "));
    }
    text.push_str(&cases(rule));
    text
}

/// Formats a tree without and a tree with a finding. The tests of each rule have more cases.
fn cases(rule: &Rule) -> String {
    let mut text = String::new();
    for wanted in ["ok", "bad"] {
        // A case has `ok.old.proto` and `ok.new.proto`, or all files below `ok/`.
        let case_of = |path: &'static str| path.split(['.', '/']).next().unwrap_or(path);
        let mut names = rule.cases().map(|file| case_of(file.path));
        let Some(case) = names.find(|name| name.starts_with(wanted)) else {
            continue;
        };
        for file in rule.cases().filter(|file| case_of(file.path) == case) {
            let _ = write!(text, "\n--- {}\n", file.path);
            let body = file.text.lines().filter(|line| !line.trim().is_empty());
            for line in body {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    text
}
