//! `oxds api` beside buf, on two real trees: Envoy's API of 2022 (crate `data-plane-api`) and of
//! 2026 (crate `envoy-types`).
//!
//! Both tools read the same files: the trees are written out by import path first. Every finding of
//! buf must have a counterpart here that is about the same element, or one that holds it; a finding
//! that this module cannot place fails the scenario.

use std::path::Path;

use oxds_apicheck::generate::typemap;
use oxds_apicheck::input::{Input, LoadOptions, load};
use oxds_apicheck::model::Tree;
use serde_json::Value;
use tokio::process::Command;

use super::Scenario;
use crate::{Context, Fallible};

const OLD: &str = "crate:data-plane-api@0.1.1#subdir=data-plane-api";
const NEW: &str = "crate:envoy-types@0.7.7#subdir=proto/data-plane-api";

/// All categories: a defect that one category leaves to another is found by either.
const BUF_YAML: &str = "\
version: v2
modules:
  - path: .
breaking:
  use: [FILE, PACKAGE, WIRE_JSON, WIRE]
";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "api_every_finding_of_buf_has_a_counterpart".to_owned(),
            counterparts,
        ),
        Scenario::new(
            "api_validation_changes_that_buf_does_not_see".to_owned(),
            validation,
        ),
        Scenario::new("api_types_have_their_pairs".to_owned(), pairs),
    ]
}

async fn counterparts(context: Context) -> Fallible {
    let trees = Trees::write(&context.dir).await?;
    let buf = lines(
        Command::new(&context.programs.node.buf)
            .args([
                "breaking",
                "new",
                "--against",
                "old",
                "--error-format",
                "json",
            ])
            .current_dir(&context.dir),
        100,
    )
    .await?;
    let ours = ours(&context).await?;
    if buf.len() < 400 {
        return Err(format!("buf has {} findings, which cannot be all", buf.len()).into());
    }
    let mut alone = Vec::new();
    for finding in &buf {
        let subject = subject(finding, &trees)?;
        let rule = finding["type"].as_str().unwrap_or_default();
        if !ours
            .iter()
            .any(|other| is_counterpart(other, &subject, rule))
        {
            alone.push(format!("{subject:?}: {finding}"));
        }
    }
    if alone.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} of {} findings of buf have no counterpart:\n{}",
            alone.len(),
            buf.len(),
            alone.join("\n")
        )
        .into())
    }
}

/// Number of messages with a previous type, and of those whose both sides are in the tree. docs/api-versioning.md has
/// the source of the numbers.
async fn pairs(_: Context) -> Fallible {
    for (name, expected) in [(OLD, (553, 552)), (NEW, (546, 1))] {
        let mut pairs = beside(move || {
            let tree = load(&name.parse::<Input>()?, &LoadOptions::default())?;
            Ok(typemap(&tree))
        })
        .await?;
        pairs.retain(|pair| pair.message);
        let both = pairs.iter().filter(|pair| pair.old_in_tree).count();
        if (pairs.len(), both) != expected {
            let found = format!("{} pairs, {both} with both sides", pairs.len());
            return Err(format!("{name}: {found}; expected {expected:?}").into());
        }
    }
    Ok(())
}

/// 13 fields are tighter and 39 looser; each was looked up in both trees when this was written.
async fn validation(context: Context) -> Fallible {
    Trees::write(&context.dir).await?;
    let mut tighter = Vec::new();
    let mut looser = 0;
    for finding in ours(&context).await? {
        let rule = finding["rule"].as_str().unwrap_or_default();
        if !rule.starts_with("VALIDATION_") {
            continue;
        }
        if finding["old_value"] == finding["new_value"] {
            return Err(format!("lacks the old or the new value: {finding}").into());
        }
        match rule {
            "VALIDATION_LOOSENED" => looser += 1,
            _ => tighter.push(finding["element"].to_string()),
        }
    }
    let known = [
        "Metadata.filter_metadata",
        "Metadata.typed_filter_metadata",
        "HealthCheck.HttpHealthCheck.host",
        "HealthCheck.HttpHealthCheck.path",
        "HttpUri.timeout",
        "AsyncFileManagerConfig.ThreadPool.thread_count",
        "ExternalProcessor.message_timeout",
        "RemoteJwks.http_uri",
        "RemoteJwks.cache_duration",
        "HeaderValueExtractor.name",
        "UriPathNormalizationOptions.path_with_escaped_slashes_action",
        "RingHash.minimum_ring_size",
        "CertificateProviderPluginInstance.instance_name",
    ];
    let missing = known
        .iter()
        .find(|name| !tighter.iter().any(|element| element.contains(*name)));
    if let Some(missing) = missing {
        return Err(format!("{missing} became tighter, which is not found").into());
    }
    match (tighter.len(), looser) {
        (13, 38) => Ok(()),
        other => Err(format!("(tighter, looser) = {other:?}: {tighter:#?}").into()),
    }
}

/// Computes beside the other scenarios, which share this thread: a tree takes seconds.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Fallible<T> + Send + 'static,
) -> Fallible<T> {
    tokio::task::spawn_blocking(work).await?
}

/// The two trees, and the folders that they were written to.
struct Trees {
    old: Tree,
    new: Tree,
}

impl Trees {
    /// Writes both below `dir`, as `old` and `new`.
    async fn write(dir: &Path) -> Fallible<Self> {
        let dir = dir.to_owned();
        beside(move || Self::write_now(&dir)).await
    }

    fn write_now(dir: &Path) -> Fallible<Self> {
        let read = |input: &str, name: &str| -> Fallible<Tree> {
            let input: Input = input.parse()?;
            let tree = load(&input, &LoadOptions::default())?;
            for file in &tree.files {
                let Some(text) = &file.text else { continue };
                let path = dir.join(name).join(&*file.path);
                std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
                std::fs::write(path, text.as_bytes())?;
            }
            std::fs::write(dir.join(name).join("buf.yaml"), BUF_YAML)?;
            Ok(tree)
        };
        Ok(Self {
            old: read(OLD, "old")?,
            new: read(NEW, "new")?,
        })
    }

    /// Package of a file, from the tree that still has it.
    fn package(&self, path: &str) -> Option<&str> {
        let file = self.new.file(path).or_else(|| self.old.file(path))?;
        Some(&file.package)
    }
}

/// Findings of `oxds api breaking`.
async fn ours(context: &Context) -> Fallible<Vec<Value>> {
    lines(
        Command::new(&context.programs.oxds)
            .args([
                "api",
                "breaking",
                "new",
                "--against",
                "old",
                "--format",
                "jsonl",
            ])
            .current_dir(&context.dir),
        1,
    )
    .await
}

/// Findings of a tool, one JSON object per line. The tool ends with `code` if it has any.
async fn lines(command: &mut Command, code: i32) -> Fallible<Vec<Value>> {
    let output = command.output().await?;
    if output.status.code() != Some(code) {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?}: {}: {stderr}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

/// The element that a finding of buf is about.
#[derive(Debug)]
enum Subject {
    /// A file, by its path.
    File(String),
    /// A package.
    Package(String),
    /// An element by its full name, and its old file.
    Element(String, Option<String>),
}

fn subject(finding: &Value, trees: &Trees) -> Fallible<Subject> {
    let rule = finding["type"].as_str().unwrap_or_default();
    let message = finding["message"].as_str().unwrap_or_default();
    let path = finding["path"]
        .as_str()
        .and_then(|path| path.strip_prefix("new/"));
    // The names in a message are quoted.
    let quoted: Vec<&str> = message.split('"').skip(1).step_by(2).collect();
    let unknown = || format!("a finding of buf that has no place here: {finding}");
    let in_package = |name: &str| -> Fallible<Subject> {
        let path = path.ok_or_else(unknown)?;
        let package = trees.package(path).ok_or_else(unknown)?;
        Ok(Subject::Element(
            format!("{package}.{name}"),
            Some(path.to_owned()),
        ))
    };
    match (rule, &quoted[..]) {
        ("FILE_NO_DELETE", [file, ..]) => Ok(Subject::File((*file).to_owned())),
        ("PACKAGE_NO_DELETE", [package, ..]) => Ok(Subject::Package((*package).to_owned())),
        (rule, [name, package, ..]) if rule.starts_with("PACKAGE_") => {
            let name = format!("{package}.{name}");
            let file = trees
                .old
                .names
                .get(&*name)
                .map(|_| file_of(&trees.old, &name));
            Ok(Subject::Element(name, file.flatten()))
        }
        (rule, _) if rule.starts_with("FILE_SAME_") => {
            Ok(Subject::File(path.ok_or_else(unknown)?.to_owned()))
        }
        ("MESSAGE_NO_DELETE" | "ENUM_NO_DELETE" | "SERVICE_NO_DELETE", [name, ..]) => {
            in_package(name)
        }
        // "Field "2" on message "Connection" changed name from "a" to "b"."
        ("FIELD_SAME_NAME", [_, message, _, now]) => in_package(&format!("{message}.{now}")),
        // "… field "2" with name "a" on message "Connection" …"
        (rule, [_, field, message, ..]) if rule.starts_with("FIELD_") => {
            in_package(&format!("{message}.{field}"))
        }
        _ => Err(unknown().into()),
    }
}

fn file_of(tree: &Tree, name: &str) -> Option<String> {
    let message = tree.message(name).map(|message| message.file);
    let file = message.or_else(|| tree.enumeration(name).map(|declared| declared.file))?;
    Some(tree[file].path.to_string())
}

/// Whether a finding of ours is about the subject and its rule covers buf's, or reports that an element that contained
/// the subject was removed or renamed.
fn is_counterpart(ours: &Value, subject: &Subject, theirs: &str) -> bool {
    let element = ours["element"].as_str().unwrap_or_default();
    let rule = ours["rule"].as_str().unwrap_or_default();
    let same = oxds_apicheck::rules::find(rule).is_some_and(|rule| rule.buf.contains(&theirs));
    let whole = rule.ends_with("_REMOVED") || rule.ends_with("_RENAMED");
    let holds = |name: &str| match name.strip_prefix(element) {
        Some("") => same,
        Some(rest) => whole && rest.starts_with('.'),
        None => false,
    };
    let was_in = |file: &str| {
        let places = [&ours["old"]["path"], &ours["path"]];
        places.iter().filter_map(|path| path.as_str()).any(|path| {
            path.strip_prefix("old/") == Some(file) || path.strip_prefix("new/") == Some(file)
        })
    };
    match subject {
        Subject::Package(package) => rule.starts_with("PACKAGE_") && element == package,
        Subject::File(file) => match rule {
            "FILE_REMOVED" | "FILE_MOVED" | "FILE_OPTION_CHANGED" => {
                same && (was_in(file) || element == file)
            }
            // A removed package includes its files.
            "PACKAGE_REMOVED" => file
                .rsplit_once('/')
                .is_some_and(|(folder, _)| in_folder(folder, element)),
            _ => false,
        },
        Subject::Element(name, file) => {
            holds(name) || rule == "FILE_REMOVED" && file.as_deref() == Some(element)
        }
    }
}

/// `contrib/envoy/x/v3` holds package `envoy.x.v3`.
fn in_folder(folder: &str, package: &str) -> bool {
    let package = package.replace('.', "/");
    folder == package || folder.ends_with(&format!("/{package}"))
}
