//! File options that determine the location or shape of generated code.

use prost_reflect::Value;

use crate::finding::Language;
use crate::model::{File, Source};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::Fact;

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&FILE_OPTION_CHANGED];

/// `(number, name, default as text, languages)`. Options of unsupported languages are reported
/// without a language.
const SHAPING: &[(i32, &str, &str, &[Language])] = &[
    (11, "go_package", "", &[Language::Go]),
    (1, "java_package", "", &[Language::Java]),
    (8, "java_outer_classname", "", &[Language::Java]),
    (10, "java_multiple_files", "false", &[Language::Java]),
    (17, "java_generic_services", "false", &[Language::Java]),
    (27, "java_string_check_utf8", "false", &[Language::Java]),
    (16, "cc_generic_services", "false", &[Language::Cpp]),
    (31, "cc_enable_arenas", "true", &[Language::Cpp]),
    (9, "optimize_for", "1", &[Language::Cpp, Language::Java]),
    (18, "py_generic_services", "false", &[Language::Python]),
    (37, "csharp_namespace", "", &[]),
    (36, "objc_class_prefix", "", &[]),
    (40, "php_class_prefix", "", &[]),
    (41, "php_namespace", "", &[]),
    (44, "php_metadata_namespace", "", &[]),
    (45, "ruby_package", "", &[]),
    (39, "swift_prefix", "", &[]),
];

static FILE_OPTION_CHANGED: Rule = Rule {
    id: "FILE_OPTION_CHANGED",
    behaviours: &["V-30"],
    purpose: "File options for generated code do not change",
    why: "`go_package`, `java_package` and similar options are the names by which users import the generated code.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FILE_SAME_CC_ENABLE_ARENAS",
        "FILE_SAME_CC_GENERIC_SERVICES",
        "FILE_SAME_CSHARP_NAMESPACE",
        "FILE_SAME_GO_PACKAGE",
        "FILE_SAME_JAVA_GENERIC_SERVICES",
        "FILE_SAME_JAVA_MULTIPLE_FILES",
        "FILE_SAME_JAVA_OUTER_CLASSNAME",
        "FILE_SAME_JAVA_PACKAGE",
        "FILE_SAME_OBJC_CLASS_PREFIX",
        "FILE_SAME_OPTIMIZE_FOR",
        "FILE_SAME_PHP_CLASS_PREFIX",
        "FILE_SAME_PHP_METADATA_NAMESPACE",
        "FILE_SAME_PHP_NAMESPACE",
        "FILE_SAME_PY_GENERIC_SERVICES",
        "FILE_SAME_RUBY_PACKAGE",
        "FILE_SAME_SWIFT_PREFIX",
        "FIELD_SAME_JAVA_UTF8_VALIDATION",
    ],
};

/// Returns one change per differing option, with the option number.
pub(super) fn facts(old: &File, new: &File) -> impl Iterator<Item = (i32, Fact)> {
    SHAPING
        .iter()
        .filter_map(|(number, name, default, languages)| {
            let text = |file: &File| match file.options.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::EnumNumber(number)) => number.to_string(),
                _ => (*default).to_owned(),
            };
            let (earlier, current) = (text(old), text(new));
            (earlier != current).then(|| {
                let message = format!("{name} changed from {earlier:?} to {current:?}");
                let fact = Fact::new(&FILE_OPTION_CHANGED, message, earlier, current);
                (*number, fact.breaks(languages))
            })
        })
}

/// Returns the source position of an option, or an empty one if it is not set.
pub(super) fn source(file: &File, number: i32) -> Source {
    let mut sources = file.sources.options.iter();
    let found = sources.find(|(path, _)| path.first() == Some(&number));
    found.map(|(_, source)| source.clone()).unwrap_or_default()
}
