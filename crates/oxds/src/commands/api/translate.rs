//! `oxds api translate`: a message of one major as a message of another.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use oxds_apicheck::ledger::Deprecated;
use oxds_types::codec::{self, Document};
use oxds_types::text;
use oxds_types::translate::{
    Correction, Dropped, Major, NotTranslated, Options, Translator, TreeError,
};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _};

use super::trees::ImportArgs;
use crate::exit::{Exit, Failure};
use crate::log;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds api translate listener.yaml --to v4alpha --tree api
  oxds api translate order.json --type shop.v1.Order --to v2 --strict
  oxds api translate cluster.yaml --to v3 --tree api -o cluster-v3.yaml

The file has messages with `@type`, or bare ones of --type. Every nested Any and TypedStruct is translated; fields are \
matched by name and annotation. A dropped field is reported on stderr. To an older major, a message is translated only \
if nothing is lost.";

/// Translate a file of messages to another major of an API: up, down, and over majors in between
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File of messages: .yaml, .json, .textproto or .pb
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Major of the result, such as v4alpha
    #[arg(long, value_name = "MAJOR")]
    to: Major,
    #[command(flatten)]
    tree: ImportArgs,
    /// Full name of the messages that do not have `@type`
    #[arg(long = "type", value_name = "MESSAGE")]
    message: Option<String>,
    /// Translate nothing if a field would be dropped
    #[arg(long)]
    strict: bool,
    /// Format of the result [default: that of FILE]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// File for the result [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    /// YAML
    Yaml,
    /// JSON in the mapping of proto3
    Json,
    /// Protobuf text format
    Text,
    /// Protobuf binary encoding
    Binary,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let from = codec::Format::from_path(&args.file).ok_or_else(|| {
        Failure::usage(format_args!("unknown format of {}", args.file.display()))
            .hint("the file name ends with .yaml, .json, .textproto or .pb")
    })?;
    let bytes = fs::read(&args.file)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", args.file.display())))?;
    let (pool, translator) = translator(&args.tree, args.to)?;
    let documents = codec::read_documents(&pool, from, &bytes, args.message.as_deref());
    let documents = documents.map_err(|error| {
        let place = match error.position {
            Some(position) => format!("{}:{position}", args.file.display()),
            None => args.file.display().to_string(),
        };
        Failure::usage(format_args!("{place}: {}", error.reason))
    })?;
    let mut translated = Vec::with_capacity(documents.len());
    let mut failed = false;
    for document in &documents {
        match translate(&translator, document, args.strict) {
            Ok((value, dropped)) => {
                report(&args.file, document, "dropped", &dropped);
                translated.push(decoded(&pool, document, value)?);
            }
            Err(NotTranslated(lost)) => {
                failed = true;
                report(&args.file, document, "error", &lost);
            }
        }
    }
    if failed {
        return Ok(Exit::Negative);
    }
    let format = args.format.map_or(from, |format| match format {
        FormatName::Yaml => codec::Format::Yaml,
        FormatName::Json => codec::Format::Json,
        FormatName::Text => codec::Format::Text,
        FormatName::Binary => codec::Format::Binary,
    });
    let written = codec::write_documents(&translated, format).map_err(Failure::negative)?;
    match &args.output {
        Some(path) => oxds_types::file::replace(path, &written)
            .map_err(|error| Failure::negative(format_args!("{}: {error}", path.display())))?,
        None => Output::new().bytes(&written)?,
    }
    Ok(Exit::Success)
}

/// Returns the descriptors of a tree, and its translator to a major.
pub(super) fn translator(
    tree: &ImportArgs,
    to: Major,
) -> Result<(DescriptorPool, Translator), Failure> {
    let ledger = tree.ledger()?.unwrap_or_default();
    let options = Options {
        corrections: ledger.deprecated.iter().filter_map(replaced).collect(),
        ..Options::default()
    };
    let tree = tree.load()?;
    let set = oxds_apicheck::descriptors::descriptor_set(&tree);
    let pool = codec::descriptor_pool(&set).map_err(|error| {
        Failure::broken(format_args!(
            "the descriptors of the tree are inconsistent: {error}"
        ))
    })?;
    let translator = Translator::new(pool.clone(), pool.clone(), to, options);
    let translator = translator.map_err(|errors| contradictory(&errors))?;
    let majors = translator.majors();
    if !majors.contains(&to) {
        let known: Vec<String> = majors.iter().map(Major::to_string).collect();
        return Err(Failure::usage(format_args!(
            "unknown major {to}: expected one of the tree: {}",
            known.join(", ")
        )));
    }
    translator
        .check()
        .map_err(|errors| contradictory(&errors))?;
    Ok((pool, translator))
}

/// Returns the replacement of a deprecated field by another one of its message.
fn replaced(entry: &Deprecated) -> Option<Correction> {
    let (parent, old) = entry.element.rsplit_once('.')?;
    let (scope, new) = entry.replacement.as_ref().ok()?.rsplit_once('.')?;
    (scope == parent && entry.translator.is_none()).then(|| Correction::Replaced {
        parent: parent.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
    })
}

/// Lists errors of a tree on stderr.
fn contradictory(errors: &[TreeError]) -> Failure {
    for error in errors {
        log::write(&format!("{}\n", text::line(&error.to_string())));
    }
    let count = errors.len();
    let noun = if count == 1 { "error" } else { "errors" };
    Failure::broken(format_args!(
        "the majors of the tree do not fit together: {count} {noun}"
    ))
}

type Translated = (oxds_types::discovery::Any, Vec<Dropped>);

fn translate(
    translator: &Translator,
    document: &Document,
    strict: bool,
) -> Result<Translated, NotTranslated> {
    let any = oxds_types::discovery::Any {
        type_url: match &document.type_url {
            Some(type_url) => type_url.clone(),
            None => document.message.descriptor().full_name().to_owned(),
        },
        value: document.message.encode_to_vec().into(),
    };
    let (any, dropped) = translator.translate_any(&any)?;
    if strict && !dropped.is_empty() {
        return Err(NotTranslated(dropped));
    }
    Ok((any, dropped))
}

fn decoded(
    pool: &DescriptorPool,
    before: &Document,
    any: oxds_types::discovery::Any,
) -> Result<Document, Failure> {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let unknown = || Failure::negative(format_args!("unknown message type `{name}`"));
    let descriptor = pool.get_message_by_name(name).ok_or_else(unknown)?;
    let message = DynamicMessage::decode(descriptor, any.value)
        .map_err(|error| Failure::negative(format_args!("malformed {name}: {error}")))?;
    let type_url = before.type_url.is_some().then_some(any.type_url);
    Ok(Document::new(message, type_url))
}

fn report(file: &Path, document: &Document, what: &str, dropped: &[Dropped]) {
    for one in dropped {
        let place = match document.position(&one.path) {
            Some(position) => format!("{}:{position}", file.display()),
            None => file.display().to_string(),
        };
        log::write(&format!(
            "{}\n",
            text::line(&format!("{place}: {what}: {one}"))
        ));
    }
}
