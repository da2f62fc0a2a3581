//! Options of files that place or shape generated code.

use prost_reflect::Value;

use crate::finding::Language;
use crate::model::{File, Source};
use crate::rules::fact::Fact;
use crate::rules::source::FILE_OPTION_CHANGED;

/// Number, name, default as text, languages. Those of other languages are told without naming one.
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

/// One fact for each option that differs, with its number.
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
            let (was, is) = (text(old), text(new));
            (was != is).then(|| {
                let message = format!("{name} changed from {was:?} to {is:?}");
                let fact = Fact::new(&FILE_OPTION_CHANGED, message, was, is);
                (*number, fact.breaks(languages))
            })
        })
}

/// Where an option is set, if it is.
pub(super) fn source(file: &File, number: i32) -> Source {
    let mut sources = file.option_sources.iter();
    let found = sources.find(|(path, _)| path.first() == Some(&number));
    found.map(|(_, source)| source.clone()).unwrap_or_default()
}
