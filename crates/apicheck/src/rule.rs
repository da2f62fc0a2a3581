//! What a rule is, and the table of all of them.

use crate::finding::Severity;
use crate::rules;

/// A rule: data, apart from the function that finds what breaks it.
///
/// Its cases lie in `testdata/ID/`: `ok…` has no finding of it, `bad…` has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The name in findings, configuration and `explain`: `FIELD_RENUMBERED`.
    pub id: &'static str,
    /// The behaviours it carries out: `["V-27"]`.
    pub behaviours: &'static [&'static str],
    /// What it wants, in one sentence.
    pub purpose: &'static str,
    /// Why, and what to do instead, in a paragraph.
    pub why: &'static str,
    /// What breaks.
    pub category: Category,
    /// Where it applies, and how hard.
    pub profiles: Profiles,
    /// What it looks at.
    pub compares: Compares,
    /// Rules of buf that find the same, by their ids; empty when buf has none.
    pub buf: &'static [&'static str],
}

/// What a rule guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Bytes on the wire.
    Wire,
    /// JSON and YAML.
    Json,
    /// Generated code.
    Source,
    /// `validate.rules` and `buf.validate`.
    Validation,
    /// The policy: packages, dependencies, life cycle.
    Policy,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compares {
    /// One tree.
    Tree,
    /// An old tree and a new one.
    Pair,
}

/// How hard a rule is in each profile; none where it does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profiles {
    /// The policy as written: clock, removals, majors.
    pub policy: Option<Severity>,
    /// What Envoy does today: v3 for ever.
    pub envoy_today: Option<Severity>,
}

impl Profiles {
    /// An error everywhere.
    pub const ERROR: Profiles = Profiles::all(Severity::Error);
    /// A warning everywhere.
    pub const WARNING: Profiles = Profiles::all(Severity::Warning);
    /// A note everywhere.
    pub const NOTE: Profiles = Profiles::all(Severity::Note);

    const fn all(severity: Severity) -> Profiles {
        Profiles {
            policy: Some(severity),
            envoy_today: Some(severity),
        }
    }
}

/// Which set of rules applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// The policy as written.
    #[default]
    Policy,
    /// What Envoy does today.
    EnvoyToday,
}

impl Rule {
    /// Whether that is the name of the rule, here or in buf.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.buf.contains(&name)
    }

    /// How hard the rule is in a profile; none where it does not apply.
    #[must_use]
    pub fn severity(&self, profile: Profile) -> Option<Severity> {
        match profile {
            Profile::Policy => self.profiles.policy,
            Profile::EnvoyToday => self.profiles.envoy_today,
        }
    }
}

/// A file of a case: a tree that a rule does or does not complain about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseFile {
    /// `ok.old.proto`, `bad_way/new/shop/v1/shop.proto`: what begins with `bad` is complained about.
    pub path: &'static str,
    /// The text.
    pub text: &'static str,
}

/// `(rule, path, text)`, sorted.
const CASES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

impl Rule {
    /// The files of its cases, sorted by path.
    pub fn cases(&self) -> impl Iterator<Item = CaseFile> {
        let own = CASES.iter().filter(|(rule, _, _)| *rule == self.id);
        own.map(|(_, path, text)| CaseFile { path, text })
    }
}

/// All rules, in the order of their groups.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    rules::GROUPS.iter().flat_map(|group| group.iter().copied())
}

/// The rule of that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    let rules = all().chain(crate::exception::RULES.iter().copied());
    rules.into_iter().find(|rule| rule.id == id)
}
