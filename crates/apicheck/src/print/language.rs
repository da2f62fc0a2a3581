//! Language packages of a moved file: `go_package`, `java_package`, `csharp_namespace` …
//!
//! Each option spells the proto package in its own way. The longest run of the last parts of the
//! package that the value contains is replaced, and the rest of the value stays:
//!
//! ```text
//!   shop.cart.v1            ─► shop.basket.v2alpha
//!   com.acme.shop.cart.v1   ─► com.acme.shop.basket.v2alpha
//!   Acme::Cart::V1          ─► Acme::Basket::V2alpha
//! ```

/// Returns the new value of a file option, or `None` if the option does not name the package in a
/// known way.
pub(super) fn moved(option: &str, value: &str, old: &str, new: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('.').collect(), new.split('.').collect());
    let names = Names {
        old: &old,
        new: &new,
        digits_end_words: option == "csharp_namespace",
    };
    match option {
        "go_package" => names.go(value),
        "java_package" | "csharp_namespace" => names.path(value, "."),
        "ruby_package" if value.contains('.') => names.path(value, "."),
        "ruby_package" => names.path(value, "::"),
        "php_namespace" | "php_metadata_namespace" => names.path(value, "\\"),
        "objc_class_prefix" | "php_class_prefix" | "swift_prefix" => names.prefix(value),
        _ => None,
    }
}

/// Old and new package, in parts. The last part of the old one is its version.
struct Names<'a> {
    old: &'a [&'a str],
    new: &'a [&'a str],
    /// Whether a letter after a digit is upper case: `V2Alpha`, the form that protoc derives for C#.
    digits_end_words: bool,
}

impl Names<'_> {
    fn versions(&self) -> Option<(&str, &str)> {
        Some((*self.old.last()?, *self.new.last()?))
    }

    /// Returns a value that consists of parts.
    fn path(&self, value: &str, separator: &str) -> Option<String> {
        let parts: Vec<&str> = value.split(separator).collect();
        let Some((at, count)) = self.longest_run(&parts) else {
            return self.with_suffixes(&parts, separator);
        };
        let run = &parts[at..at + count];
        let is_lower = run.iter().all(|part| !part.starts_with(char::is_uppercase));
        let kept = &self.old[self.old.len() - count..];
        let middle = self.replacement(count).into_iter().map(|part| {
            // A part that stays keeps its spelling: `AIPlatform`.
            match kept.iter().position(|old| *old == part) {
                Some(index) => run[index].to_owned(),
                None if is_lower => part.to_owned(),
                None => self.capitalised(part),
            }
        });
        let before = parts[..at].iter().map(|part| (*part).to_owned());
        let after = parts[at + count..].iter().map(|part| (*part).to_owned());
        let moved: Vec<String> = before.chain(middle).chain(after).collect();
        Some(moved.join(separator))
    }

    /// Returns the place and the length of the longest run of last parts of the old package.
    fn longest_run(&self, parts: &[&str]) -> Option<(usize, usize)> {
        let runs = (1..=parts.len()).map(|end| {
            let pairs = parts[..end].iter().rev().zip(self.old.iter().rev());
            let count = pairs.take_while(|(part, old)| is_same(part, old)).count();
            (count, end - count)
        });
        let (count, at) = runs.max()?;
        (count > 0).then_some((at, count))
    }

    /// Returns the parts that replace the last `count` parts of the old package.
    fn replacement(&self, count: usize) -> Vec<&str> {
        // The version alone says nothing about the place of the package.
        if count == 1 && self.old.len() > 1 {
            return self.new.last().copied().into_iter().collect();
        }
        let outer = &self.old[..self.old.len() - count];
        let common = outer.iter().zip(self.new).take_while(|(a, b)| a == b);
        self.new[common.count()..].to_vec()
    }

    /// Returns the parts with the new version if some end with the old one, as in `apiv1`.
    fn with_suffixes(&self, parts: &[&str], separator: &str) -> Option<String> {
        let moved: Vec<Option<String>> = parts.iter().map(|part| self.with_suffix(part)).collect();
        moved.iter().any(Option::is_some).then(|| {
            let parts = parts.iter().zip(moved);
            let parts = parts.map(|(part, moved)| moved.unwrap_or_else(|| (*part).to_owned()));
            parts.collect::<Vec<_>>().join(separator)
        })
    }

    /// Returns a text that ends with the old version with the new one, in the same case.
    fn with_suffix(&self, text: &str) -> Option<String> {
        let (old, new) = self.versions()?;
        let start = text.len().checked_sub(old.len())?;
        let (head, version) = (text.get(..start)?, text.get(start..)?);
        if !version.eq_ignore_ascii_case(old) {
            return None;
        }
        let is_upper = text.chars().all(|c| !c.is_lowercase()) && !head.is_empty();
        let new = if !version.starts_with('V') {
            new.to_owned()
        } else if is_upper {
            new.to_uppercase()
        } else {
            self.capitalised(new)
        };
        Some(format!("{head}{new}"))
    }

    /// Returns an import path of Go, and the name of its package after a semicolon.
    fn go(&self, value: &str) -> Option<String> {
        let (path, name) = match value.split_once(';') {
            Some((path, name)) => (path, Some(name)),
            None => (value, None),
        };
        let moved = self.path(path, "/");
        let moved_name = name.and_then(|name| self.go_name(name));
        if moved.is_none() && moved_name.is_none() {
            return None;
        }
        let path = moved.unwrap_or_else(|| path.to_owned());
        Some(match (moved_name, name) {
            (Some(name), _) => format!("{path};{name}"),
            (None, Some(name)) => format!("{path};{name}"),
            (None, None) => path,
        })
    }

    /// Returns the name of a Go package: `cartv1`, `cart_v1`, `cart`.
    fn go_name(&self, name: &str) -> Option<String> {
        for separator in ["", "_"] {
            for count in (1..=self.old.len()).rev() {
                if name == last(self.old, count, separator) {
                    let count = if count == self.old.len() {
                        self.new.len()
                    } else {
                        count
                    };
                    return Some(last(self.new, count, separator));
                }
            }
            let (old, new) = (outer(self.old), outer(self.new));
            for count in (1..=old.len()).rev() {
                if name == last(old, count, separator) {
                    return Some(last(new, count, separator));
                }
            }
        }
        self.with_suffix(name)
    }

    /// Returns a prefix of class names: `SHPV1`, `Shop_Cart_V1_`.
    fn prefix(&self, value: &str) -> Option<String> {
        if value.contains('_') {
            return self.path(value, "_");
        }
        self.with_suffix(value)
    }

    /// Writes a part in camel case, beginning with a capital letter.
    fn capitalised(&self, part: &str) -> String {
        let mut out = String::with_capacity(part.len());
        let mut upper = true;
        for c in part.chars() {
            match c {
                '_' => upper = true,
                _ if std::mem::take(&mut upper) => out.extend(c.to_uppercase()),
                _ => out.push(c),
            }
            upper |= c.is_ascii_digit() && self.digits_end_words;
        }
        out
    }
}

/// Joins the last `count` parts.
fn last(parts: &[&str], count: usize, separator: &str) -> String {
    let first = parts.len().saturating_sub(count);
    parts[first..].join(separator)
}

/// Returns the parts before the last one.
fn outer<'a, 'b>(parts: &'a [&'b str]) -> &'a [&'b str] {
    match parts {
        [outer @ .., _] => outer,
        [] => parts,
    }
}

/// Returns whether a part of a value is a part of the package, in any case.
fn is_same(part: &str, package: &str) -> bool {
    let letters = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|c| *c != '_');
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    !part.is_empty() && letters(part) == letters(package)
}

#[cfg(test)]
mod tests {
    use super::moved;

    const NEXT: (&str, &str) = ("acme.shop.cart.v1", "acme.shop.cart.v2alpha");

    fn next(option: &str, value: &str) -> String {
        moved(option, value, NEXT.0, NEXT.1).unwrap_or_else(|| format!("unchanged {value}"))
    }

    #[test]
    fn version_is_replaced_in_the_spelling_of_each_language() {
        for (option, value, expected) in [
            (
                "java_package",
                "com.acme.shop.cart.v1",
                "com.acme.shop.cart.v2alpha",
            ),
            (
                "go_package",
                "acme.com/go/shop/cart/v1;cartv1",
                "acme.com/go/shop/cart/v2alpha;cartv2alpha",
            ),
            (
                "go_package",
                "acme.com/go/cart/apiv1/cartpb;cartpb",
                "acme.com/go/cart/apiv2alpha/cartpb;cartpb",
            ),
            ("go_package", "cart/v1", "cart/v2alpha"),
            (
                "go_package",
                "acme.com/cart/v1;cart_v1",
                "acme.com/cart/v2alpha;cart_v2alpha",
            ),
            (
                "csharp_namespace",
                "Acme.Shop.Cart.V1",
                "Acme.Shop.Cart.V2Alpha",
            ),
            (
                "ruby_package",
                "Acme::Shop::Cart::V1",
                "Acme::Shop::Cart::V2alpha",
            ),
            (
                "ruby_package",
                "Acme.Shop.Cart.V1",
                "Acme.Shop.Cart.V2alpha",
            ),
            (
                "php_namespace",
                "Acme\\Shop\\Cart\\V1",
                "Acme\\Shop\\Cart\\V2alpha",
            ),
            (
                "php_metadata_namespace",
                "GPBMetadata\\Cart\\V1",
                "GPBMetadata\\Cart\\V2alpha",
            ),
            ("objc_class_prefix", "ASCV1", "ASCV2ALPHA"),
            ("objc_class_prefix", "CartV1", "CartV2alpha"),
            (
                "swift_prefix",
                "Acme_Shop_Cart_V1_",
                "Acme_Shop_Cart_V2alpha_",
            ),
        ] {
            assert_eq!(next(option, value), expected, "{option}");
        }
        // A value without the version stays.
        for (option, value) in [
            ("java_package", "com.acme.protos"),
            ("objc_class_prefix", "ASC"),
            ("java_outer_classname", "CartV1"),
        ] {
            assert_eq!(moved(option, value, NEXT.0, NEXT.1), None, "{option}");
        }
    }

    #[test]
    fn promotion_drops_the_suffix_in_each_spelling() {
        let stable = |option: &str, value: &str| moved(option, value, NEXT.1, "acme.shop.cart.v2");
        for (option, value, expected) in [
            ("csharp_namespace", "Acme.Cart.V2Alpha", "Acme.Cart.V2"),
            ("csharp_namespace", "Acme.Cart.V2alpha", "Acme.Cart.V2"),
            ("ruby_package", "Acme::Cart::V2alpha", "Acme::Cart::V2"),
            ("objc_class_prefix", "ASCV2ALPHA", "ASCV2"),
            (
                "go_package",
                "acme.com/cart/v2alpha;cartv2alpha",
                "acme.com/cart/v2;cartv2",
            ),
        ] {
            assert_eq!(stable(option, value).as_deref(), Some(expected), "{option}");
        }
    }

    #[test]
    fn moved_package_replaces_the_part_that_names_it() {
        let (old, new) = (
            "envoy.config.trace.v3",
            "envoy.extensions.tracers.zip_kin.v4alpha",
        );
        for (option, value, expected) in [
            (
                "java_package",
                "io.envoyproxy.envoy.config.trace.v3",
                "io.envoyproxy.envoy.extensions.tracers.zip_kin.v4alpha",
            ),
            (
                "go_package",
                "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3;tracev3",
                "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/zip_kin/v4alpha;zip_kinv4alpha",
            ),
            (
                "csharp_namespace",
                "Envoy.Config.Trace.V3",
                "Envoy.Extensions.Tracers.ZipKin.V4Alpha",
            ),
            (
                "php_namespace",
                "Envoy\\Config\\Trace\\V3",
                "Envoy\\Extensions\\Tracers\\ZipKin\\V4alpha",
            ),
            // The value lacks the root of the package.
            (
                "java_package",
                "io.proxy.config.trace.v3",
                "io.proxy.extensions.tracers.zip_kin.v4alpha",
            ),
            // Only the version is known.
            ("java_package", "io.proxy.v3", "io.proxy.v4alpha"),
        ] {
            assert_eq!(
                moved(option, value, old, new).as_deref(),
                Some(expected),
                "{option}"
            );
        }
    }
}
