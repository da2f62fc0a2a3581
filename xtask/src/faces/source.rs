//! Names in the sources: fields of types that are written as JSON, and fields of log lines.

use std::collections::BTreeMap;
use std::fs;

use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Fields, ItemEnum, ItemStruct, Lit, Macro, Meta, Token};

use crate::repository::{relative, root, rust_files};

/// Names with the places where they were found.
pub(super) type Names = BTreeMap<String, String>;

/// Files and folders whose JSON has the form of another program: findings for other tools, bootstraps, audit logs (gRFC
/// A59) and tokens of gRPC, protobuf.
const FOREIGN_JSON: [&str; 6] = [
    "crates/apicheck/src/report/gitlab.rs",
    "crates/apicheck/src/report/sarif.rs",
    "crates/client/src/bootstrap/",
    "crates/grpc-server/src/audit.rs",
    "crates/net/src/credentials/",
    "crates/types/src/",
];

/// Macros of `tracing`.
const LOG_MACROS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "event"];

/// Names found in one file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) json: Vec<String>,
    pub(super) logs: Vec<String>,
}

impl<'ast> Visit<'ast> for File {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if is_serialized(&item.attrs) {
            self.fields(&item.fields);
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        if is_serialized(&item.attrs) {
            for variant in &item.variants {
                self.fields(&variant.fields);
            }
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // Tests are not a face.
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        let name = item.path.segments.last().map(|last| last.ident.to_string());
        let name = name.unwrap_or_default();
        if name == "json" {
            self.json.extend(keys(&item.tokens.to_string()));
        }
        if LOG_MACROS.contains(&name.as_str()) {
            self.logs.extend(log_fields(&item.tokens.to_string()));
        }
        visit::visit_macro(self, item);
    }
}

impl File {
    fn fields(&mut self, fields: &Fields) {
        for field in fields {
            let serde = serde(&field.attrs);
            let is_shown = !serde
                .iter()
                .any(|(key, _)| key == "skip" || key == "flatten");
            let renamed = serde.into_iter().find(|(key, _)| key == "rename");
            let name = field.ident.as_ref().map(|ident| ident.unraw().to_string());
            if is_shown && let Some(name) = name {
                self.json.push(renamed.map_or(name, |(_, to)| to));
            }
        }
    }
}

fn is_serialized(attributes: &[Attribute]) -> bool {
    let derives = attributes
        .iter()
        .filter(|one| one.path().is_ident("derive"));
    let mut lists = derives.filter_map(|one| one.meta.require_list().ok());
    lists.any(|list| {
        let words = list.tokens.to_string();
        let mut words = words.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == "Serialize")
    })
}

/// Returns the options of serde for a field, with their texts.
fn serde(attributes: &[Attribute]) -> Vec<(String, String)> {
    let of_serde = attributes.iter().filter(|one| one.path().is_ident("serde"));
    let lists = of_serde.filter_map(|one| one.meta.require_list().ok());
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    let options = lists.filter_map(|list| parser.parse2(list.tokens.clone()).ok());
    let text = |meta: Meta| {
        let name = meta.path().get_ident()?.to_string();
        let text = match &meta {
            Meta::NameValue(pair) => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => text.value(),
                    _ => String::new(),
                },
                _ => String::new(),
            },
            _ => String::new(),
        };
        Some((name, text))
    };
    options.flatten().filter_map(text).collect()
}

/// Returns the keys in the tokens of `json!`: texts before a colon.
fn keys(tokens: &str) -> Vec<String> {
    let parts: Vec<_> = tokens.split('"').collect();
    let texts = parts.chunks(2).zip(parts.iter().skip(2).step_by(2));
    let keys = texts.filter_map(|(pair, after)| {
        let is_key = after.trim_start().starts_with(':');
        pair.get(1)
            .filter(|_| is_key)
            .map(|text| (*text).to_owned())
    });
    keys.collect()
}

/// Returns the fields in the tokens of a log macro: `name`, `%name`, `?name` and `name = …`, before the message.
fn log_fields(tokens: &str) -> Vec<String> {
    let mut fields = Vec::new();
    for part in top_level(tokens) {
        let part = part.trim();
        if part.starts_with('"') {
            break;
        }
        let name = match part.split_once('=') {
            Some((name, _)) => name,
            None => part.rsplit('.').next().unwrap_or(part),
        };
        let name = name.trim_start_matches(['%', '?', ' ']).trim();
        let name = name.strip_prefix("r#").unwrap_or(name).replace(' ', "");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if !part.starts_with("target") && !name.is_empty() && name.chars().all(is_name) {
            fields.push(name);
        }
    }
    fields
}

/// Splits tokens at the commas that are in no bracket and in no text.
fn top_level(tokens: &str) -> Vec<&str> {
    let (mut depth, mut is_text, mut begin) = (0_u32, false, 0);
    let mut parts = Vec::new();
    for (at, c) in tokens.char_indices() {
        match c {
            '"' => is_text = !is_text,
            '(' | '[' | '{' if !is_text => depth += 1,
            ')' | ']' | '}' if !is_text => depth = depth.saturating_sub(1),
            ',' if !is_text && depth == 0 => {
                parts.push(&tokens[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[begin..]);
    parts
}

/// Returns the names in a file.
pub(super) fn names_of(text: &str) -> File {
    let mut file = File::default();
    file.visit_file(&syn::parse_file(text).expect("Rust"));
    file
}

/// Returns the names of JSON and of log lines in the sources of all crates.
pub(super) fn names() -> Names {
    let mut names = Names::new();
    for path in rust_files(&root().join("crates")) {
        let place = relative(&path);
        // Tests and examples are no face of the product.
        if !place.contains("/src/") || place.contains("/tests") {
            continue;
        }
        let found = names_of(&fs::read_to_string(&path).expect("a file"));
        let is_ours = !FOREIGN_JSON
            .iter()
            .any(|foreign| place.starts_with(foreign));
        let json = found.json.into_iter().filter(|_| is_ours);
        names.extend(json.chain(found.logs).map(|name| (name, place.clone())));
    }
    names
}
