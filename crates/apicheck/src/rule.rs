//! Description of a rule: id, severity, explanation and test cases.

/// Description of a rule. It lies beside the function that reports violations.
///
/// Its test cases lie in `testdata/ID/`: a case `ok…` has no finding of this rule, a case `bad…`
/// has one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Name in findings, configuration and `explain`: `FIELD_RENUMBERED`.
    pub id: &'static str,
    /// Numbers of the behaviours in [`docs/conformance-versioning.md`] that the rule implements: `["V-27"]`.
    ///
    /// [`docs/conformance-versioning.md`]: https://github.com/oxds/oxds/blob/main/docs/conformance-versioning.md
    pub behaviours: &'static [&'static str],
    /// Requirement in one sentence, without a full stop.
    pub purpose: &'static str,
    /// Reason and remedy, in one paragraph.
    pub why: &'static str,
    /// Part of the API that a violation breaks.
    pub category: Category,
    /// Severity in each profile.
    pub profiles: Profiles,
    /// Input of the rule: one tree, or an old and a new tree.
    pub compares: Compares,
    /// Ids of the buf rules that find the same violation; empty if buf has none.
    pub buf: &'static [&'static str],
}

/// Part of the API that a rule protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// Bytes on the wire.
    Wire,
    /// JSON and YAML files.
    Json,
    /// Code that protoc generates.
    Source,
    /// Rules of `validate.rules` and `buf.validate`.
    Validation,
    /// The versioning policy: packages, dependencies, life cycle.
    Policy,
}

/// Input of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compares {
    /// One tree on its own.
    Tree,
    /// An old tree and a new tree.
    Pair,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Shown, but never fails a check.
    Note,
    /// Fails a check with `--fail-on warn`.
    Warning,
    /// Fails a check, whatever `--fail-on` is.
    Error,
}

/// Severity of a rule in each profile; `None` where the rule does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profiles {
    /// Severity in the profile `policy`.
    pub policy: Option<Severity>,
    /// Severity in the profile `envoy-today`.
    pub envoy_today: Option<Severity>,
}

impl Profiles {
    /// Error in every profile.
    pub const ERROR: Profiles = Profiles::all(Severity::Error);
    /// Warning in every profile.
    pub const WARNING: Profiles = Profiles::all(Severity::Warning);
    /// Note in every profile.
    pub const NOTE: Profiles = Profiles::all(Severity::Note);

    const fn all(severity: Severity) -> Profiles {
        Profiles {
            policy: Some(severity),
            envoy_today: Some(severity),
        }
    }
}

/// Set of rules that applies to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The policy as written: deprecation clock, removals, new majors.
    #[default]
    Policy,
    /// Envoy's current practice: v3 is never replaced.
    EnvoyToday,
}

impl Rule {
    /// Returns whether `name` is the id of this rule or of one of its buf counterparts.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.buf.contains(&name)
    }

    /// Returns the address of the explanation: a heading of the page of rules.
    #[must_use]
    pub fn help_uri(&self) -> String {
        const PAGE: &str = "https://github.com/oxds/oxds/blob/main/docs/api-rules.md";
        format!("{PAGE}#{}", self.id.to_lowercase())
    }

    /// Returns whether a violation breaks the wire format.
    #[must_use]
    pub fn is_wire(&self) -> bool {
        // A number that is not reserved can be reused with another meaning.
        self.category == Category::Wire || self.id == "REMOVED_UNRESERVED"
    }

    /// Returns the severity in a profile, or `None` if the rule does not apply there.
    #[must_use]
    pub fn severity(&self, profile: Profile) -> Option<Severity> {
        match profile {
            Profile::Policy => self.profiles.policy,
            Profile::EnvoyToday => self.profiles.envoy_today,
        }
    }
}

/// One file of a test case of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseFile {
    /// Path below the folder of the rule: `ok.old.proto`, `bad_way/new/shop/v1/shop.proto`.
    pub path: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// `(rule id, path, text)` of every case file, sorted; made by `build.rs`.
const CASES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

impl Rule {
    /// Returns the files of the rule's test cases, sorted by path.
    pub fn cases(&self) -> impl Iterator<Item = CaseFile> {
        let own = CASES.iter().filter(|(rule, _, _)| *rule == self.id);
        own.map(|(_, path, text)| CaseFile { path, text })
    }
}
