//! The translator: entry points, and limits of reports.

use std::fmt;

use prost_reflect::DescriptorPool;

use super::catalog::{Catalog, Options};
use super::major::Major;
use super::report::{Dropped, Incompatibility, Trail, Translation, TreeError};
use super::rewrite::{Note, Rewriter};
use super::stubs::skeleton;
use crate::clip::clip;
use crate::discovery::Any;

/// Maximum number of dropped fields that one translation reports: the items of a long list can repeat one.
const MAX_DROPPED: usize = 1000;

/// Translates messages to one major of an API, from older and from newer majors.
///
/// It has no state but plans, which are compiled when a message needs them. It can be shared by threads.
///
/// ```text
///              annotations, names
///   descriptors ───────────────────► lineage: v2 ◄── v3 ◄── v4alpha
///                                       │ pairs of fields and enum values
///   message ──► plan of its type ◄──────┘
///      │          │ of each field: copy, renumber, recurse, drop
///      └──────────┴──► message of the other major, and the dropped fields
/// ```
pub struct Translator(Catalog);

/// A message that cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTranslated(
    /// The fields that the other major cannot express; at least one.
    pub Vec<Dropped>,
);

impl fmt::Display for NotTranslated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dropped) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}{dropped}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotTranslated {}

impl Translator {
    /// Reads the lineage of all messages. `from` has the messages that are translated, `to` those of the major; a tree
    /// with several majors is both.
    ///
    /// # Errors
    /// The annotations contradict each other: all errors. [`check`](Self::check) finds those between fields.
    pub fn new(
        from: DescriptorPool,
        to: DescriptorPool,
        major: Major,
        options: Options,
    ) -> Result<Translator, Vec<TreeError>> {
        let mut errors = Vec::new();
        let catalog = Catalog::read(from, to, major, options, &mut errors);
        if errors.is_empty() {
            Ok(Translator(catalog))
        } else {
            errors.sort_unstable();
            Err(errors)
        }
    }

    /// Makes a translator that ignores contradictory annotations.
    pub(crate) fn tolerant(
        from: DescriptorPool,
        to: DescriptorPool,
        major: Major,
        options: Options,
    ) -> Translator {
        Translator(Catalog::read(from, to, major, options, &mut Vec::new()))
    }

    /// Compiles the plans of all messages.
    ///
    /// # Errors
    /// The fields and enum values whose successor is not clear, with their files.
    pub fn check(&self) -> Result<(), Vec<TreeError>> {
        self.0.check()
    }

    /// Returns the major of the results.
    #[must_use]
    pub fn major(&self) -> Major {
        self.0.major()
    }

    /// Returns the full name of the message that this message becomes: its own if it is the same in the major. `None`
    /// if the descriptors do not know the message, or the major has no such message.
    #[must_use]
    pub fn name(&self, message: &str) -> Option<&str> {
        self.0.name(message)
    }

    /// Returns the majors of the messages that have an earlier or later form.
    #[must_use]
    pub fn majors(&self) -> Vec<Major> {
        self.0.majors()
    }

    /// Returns a Rust skeleton for the pairs of messages that need a decision: one function each, with every unchanged
    /// field done and a `todo!` per changed one. `None` if no pair needs one.
    #[must_use]
    pub fn skeleton(&self) -> Option<String> {
        skeleton(&self.0)
    }

    /// Translates an encoded message. Fields that the other major lacks are dropped and reported.
    ///
    /// # Errors
    /// A message of a newer major has fields that this one lacks, the message itself does not exist in the major, or
    /// the bytes are malformed: at most 1000 fields.
    pub fn translate(&self, message: &str, value: &[u8]) -> Result<Translation, NotTranslated> {
        let mut dropped = Vec::new();
        let mut note = |trail: &Trail<'_>, cause| {
            if dropped.len() < MAX_DROPPED {
                let path = clip(trail.to_string());
                dropped.push(Dropped { path, cause });
            }
        };
        let (translated, lost_down) = self.rewrite(message, value, &mut note);
        let malformed = |one: &Dropped| matches!(one.cause, Incompatibility::Malformed(_));
        match translated {
            Some((message, value)) if !lost_down && !dropped.iter().any(malformed) => {
                Ok(Translation {
                    message,
                    value,
                    dropped,
                })
            }
            _ => Err(NotTranslated(dropped)),
        }
    }

    /// Translates an encoded message completely.
    ///
    /// # Errors
    /// The fields that the other major lacks: at least one.
    pub fn translate_strict(
        &self,
        message: &str,
        value: &[u8],
    ) -> Result<Translation, NotTranslated> {
        let translation = self.translate(message, value)?;
        if translation.dropped.is_empty() {
            Ok(translation)
        } else {
            Err(NotTranslated(translation.dropped))
        }
    }

    /// Translates an `Any`: its type URL and its content. An `Any` of unknown type is returned as it is.
    ///
    /// # Errors
    /// As [`translate`](Self::translate).
    pub fn translate_any(&self, any: &Any) -> Result<(Any, Vec<Dropped>), NotTranslated> {
        let (host, name) = any.type_url.rsplit_once('/').unwrap_or(("", &any.type_url));
        let translation = self.translate(name, &any.value)?;
        let translated = Any {
            type_url: match host {
                "" => translation.message,
                host => format!("{host}/{}", translation.message),
            },
            value: translation.value.into(),
        };
        Ok((translated, translation.dropped))
    }

    /// Rewrites a message, and returns its new name and bytes, and whether a message became one of an older major and
    /// lost a field. Nothing is returned for a message that does not exist in the major, which is noted.
    pub(crate) fn rewrite(
        &self,
        message: &str,
        value: &[u8],
        note: &mut Note<'_>,
    ) -> (Option<(String, Vec<u8>)>, bool) {
        let mut rewriter = Rewriter {
            catalog: &self.0,
            note,
            depth: 0,
            lost_down: false,
            down: false,
            gone: false,
        };
        let Some((plan, to)) = rewriter.content(message, &Trail::ROOT) else {
            return (Some((message.to_owned(), value.to_vec())), false);
        };
        let Some(plan) = plan else {
            return (None, rewriter.lost_down);
        };
        let mut out = Vec::with_capacity(value.len());
        if let Err(error) = rewriter.message(plan, value, &Trail::ROOT, &mut out) {
            rewriter.note(&Trail::ROOT, Incompatibility::Malformed(error.to_string()));
        }
        (Some((to.to_owned(), out)), rewriter.lost_down)
    }

    /// Returns the number that a field of a message has in the major; `None` if the message or the field does not exist
    /// there.
    #[must_use]
    pub fn field(&self, message: &str, number: u32) -> Option<u32> {
        self.0.field(message, number)
    }
}

impl fmt::Debug for Translator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translator")
            .field("major", &self.0.major())
            .finish_non_exhaustive()
    }
}
