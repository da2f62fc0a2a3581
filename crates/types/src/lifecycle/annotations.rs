//! Annotations: the extensions in the options of an element.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

/// Options of an element, with their extensions.
pub(super) struct Annotations(DynamicMessage);

impl Annotations {
    pub(super) fn of(options: DynamicMessage) -> Self {
        Self(options)
    }

    fn extension(&self, name: &str) -> Option<Value> {
        let options = &self.0;
        let descriptor = options.descriptor();
        let extension = descriptor.parent_pool().get_extension_by_name(name)?;
        let is_set = options.has_extension(&extension);
        is_set.then(|| options.get_extension(&extension).into_owned())
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.extension(name).and_then(|value| value.as_bool()) == Some(true)
    }

    pub(super) fn text(&self, name: &str) -> Option<Box<str>> {
        Some(self.extension(name)?.as_str()?.into())
    }

    pub(super) fn work_in_progress(&self, statuses: [&str; 2]) -> bool {
        statuses.iter().any(|name| {
            let status = self.extension(name);
            let status = status.as_ref().and_then(Value::as_message);
            let flag =
                status.and_then(|status| status.get_field_by_name("work_in_progress")?.as_bool());
            flag == Some(true)
        })
    }
}
