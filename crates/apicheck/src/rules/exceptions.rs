//! Exceptions from rules, and the rules about exceptions.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::civil::Date;
use oxds_settings::Position;

use crate::finding::{Finding, Location, Severity};
use crate::model::Span;
use crate::rule::{Category, Compares, Profiles, Rule};

/// Exception that matches no finding.
static UNUSED: Rule = Rule {
    id: "EXCEPTION_UNUSED",
    behaviours: &[],
    purpose: "Every exception matches a finding",
    why: "The change was reverted or is spelled differently, or it was merged before the last release. An \
     exception that stays also hides the next change of the same form. Remove it. \
     Between the merge and the next release of the ledger, or until its expiry date, it may stay.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[],
};

/// Exception past its expiry date.
static EXPIRED: Rule = Rule {
    id: "EXCEPTION_EXPIRED",
    behaviours: &[],
    purpose: "No exception is used after its expiry date",
    why: "Its author wanted a new decision by that date. Fix the finding, or set a \
     new date and state the reason.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[],
};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&UNUSED, &EXPIRED];

/// All exceptions of a configuration file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exceptions {
    /// Path of the configuration file, for findings.
    pub(crate) path: PathBuf,
    pub(crate) list: Vec<Exception>,
}

/// One exception, which exempts one finding.
#[derive(Debug, Clone)]
pub(crate) struct Exception {
    /// Id of the rule, or of its counterpart in buf.
    pub(crate) rule: String,
    /// Full name of the element.
    pub(crate) element: String,
    /// Old value of the finding; `None` matches any.
    pub(crate) old: Option<String>,
    /// New value of the finding; `None` matches any.
    pub(crate) new: Option<String>,
    pub(crate) reason: String,
    pub(crate) owner: String,
    /// Last day on which the exception applies.
    pub(crate) expires: Option<Date>,
    /// Position in the configuration file.
    pub(crate) position: Position,
}

impl Exceptions {
    /// Exempts the findings that match an exception. An expired exception matches nothing.
    pub(crate) fn except(&self, findings: &mut [Finding], today: Date) {
        for exception in self.list.iter().filter(|one| !one.is_expired(today)) {
            for finding in findings.iter_mut().filter(|one| exception.is_for(one)) {
                finding.exempt = Some(format!("exception: {}", exception.reason));
            }
        }
    }

    /// Returns the unused and the expired exceptions as findings. `findings` must be complete. `base`
    /// has the exceptions that are merged, `release` those that were merged at the last release.
    pub(crate) fn left_over(
        &self,
        findings: &[Finding],
        today: Date,
        base: Option<&Exceptions>,
        release: Option<(&str, &Exceptions)>,
    ) -> Vec<Finding> {
        let left_over = self.list.iter().filter_map(|exception| {
            let Exception { rule, owner, .. } = exception;
            if let Some(expires) = exception.expires.filter(|_| exception.is_expired(today)) {
                let message = format!("expired on {expires}; owner: {owner}");
                return Some(self.finding(exception, &EXPIRED, message));
            }
            if findings.iter().any(|finding| exception.is_for(finding)) {
                return None;
            }
            let unused = format!("matches no finding of {rule}");
            if !base.is_some_and(|base| base.has(exception)) {
                let message = format!("{unused}; owner: {owner}");
                return Some(self.finding(exception, &UNUSED, message));
            }
            // The change is merged.
            if exception.expires.is_some() {
                return None;
            }
            let released = release.filter(|(_, then)| then.has(exception));
            let Some((version, _)) = released else {
                let message = format!("{unused} any more: remove it after the next release");
                let note = self.finding(exception, &UNUSED, message);
                return Some(Finding {
                    severity: Severity::Note,
                    ..note
                });
            };
            let message = format!("{unused} since release {version}; owner: {owner}");
            Some(self.finding(exception, &UNUSED, message))
        });
        left_over.collect()
    }

    /// Returns whether the list contains the exception, whatever its date, reason and owner.
    fn has(&self, exception: &Exception) -> bool {
        let key = |one: &Exception| {
            (
                one.rule.clone(),
                one.element.clone(),
                one.old.clone(),
                one.new.clone(),
            )
        };
        self.list.iter().any(|one| key(one) == key(exception))
    }

    fn finding(&self, exception: &Exception, rule: &'static Rule, message: String) -> Finding {
        let Position { line, column } = exception.position;
        Finding {
            rule,
            severity: Severity::Error,
            element: exception.element.clone(),
            old_element: None,
            message,
            old_value: String::new(),
            new_value: String::new(),
            old: None,
            new: Some(Location {
                path: self.path.display().to_string(),
                span: Some(Span {
                    line,
                    column,
                    end_line: line,
                    end_column: column,
                }),
            }),
            languages: BTreeSet::new(),
            fix: None,
            exempt: None,
        }
    }
}

impl Exception {
    fn is_expired(&self, today: Date) -> bool {
        self.expires.is_some_and(|expires| expires < today)
    }

    fn is_for(&self, finding: &Finding) -> bool {
        let same =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|w| w == value);
        finding.rule.is_called(&self.rule)
            && self.element == finding.element
            && same(&self.old, &finding.old_value)
            && same(&self.new, &finding.new_value)
    }
}
