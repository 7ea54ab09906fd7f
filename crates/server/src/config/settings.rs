//! The macro `settings!`: structs that declare defaults, bounds and explanations of settings in one place.

use std::ops::RangeInclusive;

/// The description of a setting.
#[derive(Debug)]
pub struct Field {
    /// The name in the file.
    pub name: &'static str,
    /// The explanation, which is the documentation of the struct's field.
    pub about: &'static str,
    /// The bounds of a number.
    pub bounds: Option<RangeInclusive<u64>>,
    /// True if no file can give the setting, because the program sets it.
    pub hidden: bool,
}

/// Settings whose names contain one of these words are secrets.
const SECRETS: [&str; 4] = ["password", "secret", "token", "headers"];

impl Field {
    /// Returns whether the value must never be printed.
    pub fn is_secret(&self) -> bool {
        SECRETS.iter().any(|secret| self.name.contains(secret))
    }
}

/// Declares a struct of settings from fields with a default and, for numbers, bounds:
///
/// ```ignore
/// settings! {
///     /// What the face allows.
///     pub struct Settings {
///         /// The most connections at once.
///         pub connections: usize = 4096, 1..=1_000_000;
///     }
/// }
/// ```
///
/// The struct is one table of the configuration file. Unknown keys are rejected, and missing keys have
/// their default. `FIELDS` describes the settings for code that prints or checks a file. The doc comments
/// inside the macro are printed with the settings, so they are part of the program's output.
macro_rules! settings {
    (
        $(#[doc = $struct_about:literal])+
        pub struct $name:ident {
            $(
                $(#[doc = $about:literal])+
                $(#[serde($($serde:tt)+)])?
                pub $field:ident: $type:ty = $default:expr $(, $bounds:expr)?;
            )+
        }
    ) => {
        $(#[doc = $struct_about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $about])+
                $(#[serde($($serde)+)])?
                pub $field: $type,
            )+
        }

        impl $name {
            /// The explanation of the table.
            pub const ABOUT: &'static str = concat!($($struct_about),+);
            /// All settings, in the order in which they are printed.
            pub const FIELDS: &'static [$crate::config::Field] = &[
                $($crate::config::Field {
                    name: stringify!($field),
                    about: concat!($($about),+),
                    bounds: $crate::config::settings::bounds!($($bounds)?),
                    hidden: $crate::config::settings::hidden!($($($serde)+)?),
                },)+
            ];
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }
    };
}

macro_rules! bounds {
    () => {
        None
    };
    ($bounds:expr) => {
        Some($bounds)
    };
}

macro_rules! hidden {
    (skip) => {
        true
    };
    ($($other:tt)*) => {
        false
    };
}

pub(crate) use {bounds, hidden, settings};
