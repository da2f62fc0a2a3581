//! Names, paths and status of packages (V-1 … V-6).

use super::collector::TreeFindings;
use super::http;
use crate::maturity;
use crate::model::{File, Tree};
use crate::package::PackageName;
use crate::rule::{Category, Compares, Profiles, Rule};

const fn policy(
    id: &'static str,
    behaviours: &'static [&'static str],
    purpose: &'static str,
    why: &'static str,
    buf: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        behaviours,
        purpose,
        why,
        category: Category::Policy,
        profiles: Profiles::ERROR,
        compares: Compares::Tree,
        buf,
    }
}

/// Naming rules that the owners of a tree configure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Allowed first components of packages: `envoy`, `udpa`. Any component if empty.
    pub roots: Vec<String>,
    /// Folders below which paths follow packages again: `contrib`.
    pub folders: Vec<String>,
}

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &PACKAGE_NAME,
    &PACKAGE_VERSION_NOT_LAST,
    &PACKAGE_PATH,
    &REST_PATH_MAJOR,
    &STATUS_MISSING,
];

static PACKAGE_NAME: Rule = policy(
    "PACKAGE_NAME",
    &["V-1", "V-5"],
    "A package name ends with its version: ROOT.NAME.vN, vNalpha or vNbeta",
    "The version in the name allows two majors side by side, in type URLs and in the paths of gRPC calls. It also states the stability.",
    &["PACKAGE_VERSION_SUFFIX", "PACKAGE_DEFINED"],
);

static PACKAGE_VERSION_NOT_LAST: Rule = policy(
    "PACKAGE_VERSION_NOT_LAST",
    &["V-2"],
    "The version is the last component of a package name",
    "A package below a version cannot have its own version. Put the name before the version.",
    &["PACKAGE_VERSION_SUFFIX"],
);

static STATUS_MISSING: Rule = policy(
    "STATUS_MISSING",
    &["V-6"],
    "If one file has a `package_version_status`, every file has one",
    "`package_version_status` states whether a package may still change. A file without it can change in a frozen package.",
    &[],
);

pub(super) fn find(report: &mut TreeFindings<'_>, policy: &Policy) {
    let tree = report.tree;
    // A tree without any status uses another mechanism.
    let with_status = tree.targets().any(|file| maturity::status(file).is_some());
    for file in tree.targets() {
        let package = PackageName::of(&file.package);
        if let Some(message) = wrong_name(&package, policy) {
            report.file(&PACKAGE_NAME, file, message, package.full);
        } else if !package.rest.is_empty() {
            let message = format!("component {} after the version", package.rest);
            report.file(&PACKAGE_VERSION_NOT_LAST, file, message, package.full);
        }
        path(report, file, policy);
        services(report, file, &package);
        if with_status && maturity::status(file).is_none() && tree.declares(file) {
            let message = "missing package_version_status";
            report.file(&STATUS_MISSING, file, message.to_owned(), "");
        }
    }
}

fn wrong_name(package: &PackageName<'_>, policy: &Policy) -> Option<String> {
    let full = package.full;
    if full.is_empty() {
        return Some("missing package statement".to_owned());
    }
    // Stable-API policy: package names follow ROOT.NAME.vN, vNalpha or vNbeta (V-1).
    if package.version.is_none() {
        return Some(format!("package {full} has no version component"));
    }
    let root = full.split('.').next().unwrap_or(full);
    if !policy.roots.is_empty() && !policy.roots.iter().any(|one| one == root) {
        let roots = policy.roots.join(", ");
        return Some(format!(
            "root of package {full} is not allowed: expected one of {roots}"
        ));
    }
    if package.base.is_empty() {
        return Some(format!("package {full} has no name before the version"));
    }
    None
}

static PACKAGE_PATH: Rule = policy(
    "PACKAGE_PATH",
    &["V-3"],
    "The folder of a file matches its package",
    "Generators for Python and Go use the path, and people look for a package by its name.",
    &[
        "PACKAGE_DIRECTORY_MATCH",
        "DIRECTORY_SAME_PACKAGE",
        "PACKAGE_SAME_DIRECTORY",
    ],
);

fn path(report: &mut TreeFindings<'_>, file: &File, policy: &Policy) {
    if file.package.is_empty() {
        return;
    }
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let expected = file.package.replace('.', "/");
    let below = policy.folders.iter().filter_map(|root| {
        folder
            .strip_prefix(root.trim_end_matches('/'))?
            .strip_prefix('/')
    });
    // Stable-API policy: the folder is the package with slashes, below each root (V-3).
    if folder != expected && !below.into_iter().any(|folder| folder == expected) {
        let message = format!("file lies in {folder}, but its package requires {expected}");
        report.file(&PACKAGE_PATH, file, message, folder);
    }
}

static REST_PATH_MAJOR: Rule = policy(
    "REST_PATH_MAJOR",
    &["V-4"],
    "A REST path contains the major of its package",
    "Clients detect the majors of a server by its paths. One path for two majors is ambiguous.",
    &[],
);

fn services(report: &mut TreeFindings<'_>, file: &File, package: &PackageName<'_>) {
    let Some(version) = package.version else {
        return;
    };
    let tree: &Tree = report.tree;
    for service in file.services.iter().map(|id| &tree[*id]) {
        for method in &service.methods {
            for path in http::bindings(method).into_iter().map(|one| one.path) {
                let major = path.strip_prefix("/v").and_then(|rest| {
                    let end = rest
                        .find(|c: char| !c.is_ascii_digit())
                        .unwrap_or(rest.len());
                    rest[..end].parse::<u32>().ok()
                });
                // Stable-API policy: a path that starts with /vX/ has the major of its package
                // (V-4).
                if major.is_some_and(|major| major != version.major) {
                    let message =
                        format!("REST path {path} does not contain major {}", version.major);
                    let element = format!("{}.{}", service.name, method.name);
                    let at = (file.id, &method.source);
                    report.add(&REST_PATH_MAJOR, &element, at, message, &path);
                }
            }
        }
    }
}
