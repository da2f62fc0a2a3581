//! Fields and enum values of one major, and those that replaced them in the next one.
//!
//! | the older major | the next major |
//! |---|---|
//! | a correction names `b` for `a` | `b` |
//! | an annotation renames `a` to `b` | `b`, or `a` if `b` does not exist yet |
//! | `a` | `a`, whatever its number |
//! | the default value of an enum, without a match | the default value, if its name says that it is unavailable |
//!
//! A number alone does not match: it may have got a new meaning.

use std::borrow::Cow;

use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, EnumValueDescriptor, ExtensionDescriptor,
    FieldDescriptor, MessageDescriptor,
};

use super::correction::{Correction, renamed, replaced};
use super::lineage::text;
use super::report::{TreeError, TreeErrorCause, UNAVAILABLE};

/// The annotations that rename fields and enum values, and the corrections.
#[derive(Debug)]
pub(super) struct Renames {
    fields: Vec<ExtensionDescriptor>,
    values: Vec<ExtensionDescriptor>,
    pub(super) corrections: Cow<'static, [Correction]>,
}

impl Renames {
    pub(super) fn of(
        pools: &[&DescriptorPool],
        corrections: Cow<'static, [Correction]>,
    ) -> Renames {
        let named = |name: &str| {
            let found = pools
                .iter()
                .filter_map(|pool| pool.get_extension_by_name(name));
            found.collect()
        };
        Renames {
            fields: named("udpa.annotations.field_migrate"),
            values: named("udpa.annotations.enum_value_migrate"),
            corrections,
        }
    }

    fn of_field(&self, field: &FieldDescriptor) -> Option<String> {
        let parent = field.parent_message();
        if let Some(name) = renamed(&self.corrections, parent.full_name(), field.name()) {
            return Some(name.to_owned());
        }
        field.field_descriptor_proto().options.as_ref()?;
        annotation(&field.options(), &self.fields, field.parent_pool())
    }

    fn of_value(&self, value: &EnumValueDescriptor) -> Option<String> {
        let parent = value.parent_enum();
        if let Some(name) = renamed(&self.corrections, parent.full_name(), value.name()) {
            return Some(name.to_owned());
        }
        value.enum_value_descriptor_proto().options.as_ref()?;
        annotation(&value.options(), &self.values, value.parent_pool())
    }
}

fn annotation(
    options: &DynamicMessage,
    annotations: &[ExtensionDescriptor],
    pool: &DescriptorPool,
) -> Option<String> {
    let own = annotations.iter().filter(|one| one.parent_pool() == pool);
    text(options, own, "rename")
}

/// Pairs of fields, or of enum values: from the older major, and from the next one.
pub(super) type Matches<T> = Vec<(T, T)>;

/// Returns the fields of a message that the next major has, too. The errors name fields whose match is not clear; of
/// the fields that claim the same one, the first has it.
pub(super) fn fields(
    renames: &Renames,
    old: &MessageDescriptor,
    new: &MessageDescriptor,
    errors: &mut Vec<TreeError>,
) -> Matches<FieldDescriptor> {
    let mut matches: Matches<FieldDescriptor> = Vec::new();
    // A field that is renamed has more right to its new name than one that always had the name.
    let (mut claims, mut same): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for field in old.fields() {
        let same_name = new.get_field_by_name(field.name());
        match renames.of_field(&field) {
            Some(target) => match new.get_field_by_name(&target) {
                Some(found) => claims.push((field, found)),
                None if same_name.is_some() => same.extend(same_name.map(|found| (field, found))),
                None => errors.push(error(
                    old.parent_file().name(),
                    field.full_name(),
                    TreeErrorCause::NoRenameTarget {
                        target,
                        parent: new.full_name().to_owned(),
                    },
                )),
            },
            None => same.extend(same_name.map(|found| (field, found))),
        }
    }
    let mut replaced_ones = Vec::new();
    for field in old.fields() {
        let is_free = |matches: &[(FieldDescriptor, FieldDescriptor)]| {
            matches.iter().all(|(one, _)| *one != field)
        };
        let target = replaced(&renames.corrections, old.full_name(), field.name());
        let found = target.and_then(|target| new.get_field_by_name(target));
        if is_free(&claims) && is_free(&same) {
            replaced_ones.extend(found.map(|found| (field.clone(), found)));
        }
    }
    for (field, found) in claims.into_iter().chain(same) {
        match matches.iter().find(|(_, taken)| *taken == found) {
            None => matches.push((field, found)),
            Some((other, _)) => errors.push(error(
                old.parent_file().name(),
                field.full_name(),
                TreeErrorCause::MovedTwice {
                    message: new.full_name().to_owned(),
                    field: found.name().to_owned(),
                    other: other.name().to_owned(),
                },
            )),
        }
    }
    // The replacement itself comes first: it has the value if it is set.
    matches.extend(replaced_ones);
    matches
}

/// Returns the values of an enum that the next major has, too.
pub(super) fn values(
    renames: &Renames,
    old: &EnumDescriptor,
    new: &EnumDescriptor,
    errors: &mut Vec<TreeError>,
) -> Matches<EnumValueDescriptor> {
    let mut matches: Matches<EnumValueDescriptor> = Vec::new();
    for value in old.values() {
        let same_name = new.get_value_by_name(value.name());
        let found = match renames.of_value(&value) {
            Some(target) => new.get_value_by_name(&target).or(same_name),
            None => same_name,
        };
        if let Some(found) = found {
            matches.push((value, found));
        } else if value.number() == old.default_value().number()
            && !matches
                .iter()
                .any(|(one, _)| one.number() == value.number())
            && let Some(taken) = new.get_value(value.number())
            && !taken.name().ends_with(UNAVAILABLE)
        {
            let file = old.parent_file();
            let cause = TreeErrorCause::DefaultReplaced {
                number: value.number(),
                enumeration: new.full_name().to_owned(),
                value: taken.name().to_owned(),
            };
            let element = format!("{}.{}", old.full_name(), value.name());
            errors.push(error(file.name(), &element, cause));
        }
    }
    matches
}

fn error(file: &str, element: &str, cause: TreeErrorCause) -> TreeError {
    TreeError {
        file: file.to_owned(),
        element: element.to_owned(),
        cause,
    }
}
