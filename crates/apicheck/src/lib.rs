//! Checks of versioned protobuf APIs against a stable-API policy: lint rules, breaking changes,
//! tightened validation, the semantic hash, and the next major version.
//!
//! ```text
//!   folder, git ref, descriptor set, crate, buf.yaml modules
//!        │
//!      input ──► parse ──► model::Tree ──┬─► rules (one tree)          ─┐
//!                                        ├─► compare ─► rules (a pair)  ─┼─► finding ─► config ─► report
//!                          model::Tree ──┘                              ─┘
//!                             ├─► hash      local and closure, version bumps
//!                             └─► generate  next major, promotion, type map
//! ```
//!
//! ```
//! use oxds_apicheck::check::{self, Settings};
//! use oxds_apicheck::model::Tree;
//!
//! let order = |fields: &str| format!("syntax = \"proto3\";\npackage shop.v1;\nmessage Order {{ {fields} }}\n");
//! let tree = |text: &str| Tree::parse([("shop/v1/order.proto", text)]);
//! let old = tree(&order("string id = 1;")).unwrap();
//! let new = tree(&order("string id = 2;")).unwrap();
//!
//! let findings = check::breaking(&old, &new, &Settings::default());
//! let [finding] = &findings[..] else { panic!("{findings:?}") };
//! assert_eq!((finding.rule.id, &*finding.element), ("FIELD_RENUMBERED", "shop.v1.Order.id"));
//! assert_eq!(finding.new.as_ref().unwrap().span.unwrap().line, 3);
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`compare`] | pairs of elements: each element of the old tree and its successor in the new tree |
//! | [`model`] | a tree of proto files as data: files, messages, fields, options, source positions |
//! | [`input`] | sources of trees: folders, git refs, descriptor sets, crates |
//! | [`parse`] | proto texts to a tree, or every error in them with its location |
//! | [`finding`] | one result of a rule, with its location in the old and in the new tree |
//! | [`validation`] | validation rules by meaning, and whether they became tighter |
//! | [`hash`] | the semantic hash of files, packages and root resources |
//! | [`package`], [`maturity`] | package names split into parts; whether an element is stable, alpha, draft … |
//! | [`graph`] | dependencies between packages |
//! | [`ledger`], [`clock`], [`experiment`], [`audit`] | releases and owners as data; the deprecation phase of each element; unstable elements and their age; the release audit |
//! | [`review`] | the teams that review a change |
//! | [`bump`] | file versions that must grow, the lock file, frozen packages |
//! | [`descriptors`](mod@descriptors) | a tree as descriptors, for reflection |
//! | [`generate`] | the next major version: which packages need it, and their files |
//! | [`plan`], [`print`](mod@print) | new names and paths of moved files; a file of the model as text |
//! | [`config`], [`baseline`], [`buf`] | configuration, and the findings that do not count |
//! | [`rule`], [`rules`] | the description of a rule; all rules, each with its function |
//!
//! The crate has no async runtime, opens no sockets and reads no clock: dates are arguments.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod audit;
pub mod baseline;
pub mod buf;
pub mod bump;
pub mod check;
pub mod clock;
pub mod compare;
pub mod config;
mod config_file;
pub mod descriptors;
pub mod experiment;
pub mod finding;
pub mod generate;
pub mod graph;
pub mod hash;
pub mod input;
pub mod ledger;
pub mod maturity;
pub mod model;
pub mod package;
pub mod parse;
mod paths;
pub mod plan;
pub mod print;
pub mod report;
pub mod review;
pub mod rule;
pub mod rules;
pub mod validation;
