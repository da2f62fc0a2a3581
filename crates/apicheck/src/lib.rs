//! Versioned protobuf APIs, held to a stable-API policy: lint, breaking changes, validation that
//! tightens, the semantic hash, and the next major.
//!
//! ```text
//!   folder, git ref, descriptor set, crate, buf.yaml modules
//!        │
//!      input ──► parse ──► model::Tree ──┬─► rules (one tree)          ─┐
//!                                        ├─► compare ─► rules (a pair)  ─┼─► finding ─► exception ─► report
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
//! | module | holds |
//! |---|---|
//! | [`compare`] | what became of each element of an old tree in a new one |
//! | [`model`] | a tree of proto files as data: files, messages, fields, options, places |
//! | [`input`] | where trees come from: folders, git refs, descriptor sets, crates |
//! | [`parse`] | proto texts to a tree, or every mistake in them with its place |
//! | [`finding`] | what a rule found, and where, in the old tree and in the new one |
//! | [`validation`] | what validation demands, by meaning, and whether it became tighter |
//! | [`hash`] | the semantic hash of files, packages and root resources |
//! | [`package`], [`maturity`] | names of packages taken apart; how far an element is |
//! | [`graph`] | which package uses which |
//! | [`ledger`], [`clock`], [`audit`] | releases and owners as data; how far what is deprecated is; what a release looks at |
//! | [`review`] | who is asked about a change |
//! | [`bump`] | versions of files that must grow, the lock, packages that are frozen |
//! | [`generate`] | the next major, generated: which packages need it, and their files |
//! | [`print`](mod@print) | a file of the model as text |
//! | [`exception`], [`baseline`], [`buf`] | what of the findings does not count, as data |
//! | [`rule`] | what a rule is, and the table of all of them |
//!
//! It has no runtime, opens no sockets, and reads no clock: dates come in as arguments.

pub mod audit;
pub mod baseline;
pub mod buf;
pub mod bump;
pub mod check;
pub mod clock;
pub mod compare;
pub mod exception;
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
pub mod print;
pub mod report;
pub mod review;
pub mod rule;
pub mod rules;
pub mod validation;
