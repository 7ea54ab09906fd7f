//! Spaces: how one is declared, and what is known of it.

use super::{GROUPS_DEFAULT, GROUPS_LIMIT, Version, VersionKind};
use crate::{Code, Error, Result, Value};
use serde::{Deserialize, Serialize};

/// How a space is declared. What is not declared is so by its first write: newest wins, and the first version
/// fixes the kind of all.
///
/// ```
/// use mainstay_model::{SpaceOptions, VersionKind};
/// let options = SpaceOptions::default().versions(VersionKind::Time).ordered();
/// assert_eq!(options.groups, 128);
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceOptions {
    /// The kind of its versions; `None`: that of the first one.
    pub versions: Option<VersionKind>,
    /// Whether writes wait until their version is sealed, and are applied in order.
    pub ordered: bool,
    /// Whether a function merges what is put with what is there. It is its user's: without it nothing is put.
    pub merged: bool,
    /// How many groups its keys belong to; it stays so.
    pub groups: u32,
}

impl Default for SpaceOptions {
    fn default() -> SpaceOptions {
        SpaceOptions { versions: None, ordered: false, merged: false, groups: GROUPS_DEFAULT }
    }
}

impl SpaceOptions {
    /// Fixes the kind of its versions.
    #[must_use]
    pub fn versions(mut self, versions: VersionKind) -> SpaceOptions {
        self.versions = Some(versions);
        self
    }

    /// Writes wait until their version is sealed, and are applied in order.
    #[must_use]
    pub fn ordered(mut self) -> SpaceOptions {
        self.ordered = true;
        self
    }

    /// A function merges what is put with what is there.
    #[must_use]
    pub fn merged(mut self) -> SpaceOptions {
        self.merged = true;
        self
    }

    /// How many groups its keys belong to.
    #[must_use]
    pub fn groups(mut self, groups: u32) -> SpaceOptions {
        self.groups = groups;
        self
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        if (1..=GROUPS_LIMIT).contains(&self.groups) {
            return Ok(());
        }
        let message = format!("keys belong to 1 to {GROUPS_LIMIT} groups, not {}", self.groups);
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Whether a space that is declared like this is the one that is asked for.
    pub fn is_as(&self, asked: &SpaceOptions) -> bool {
        let versions = asked.versions.is_none() || asked.versions == self.versions;
        versions
            && SpaceOptions { versions: None, ..*self } == SpaceOptions { versions: None, ..*asked }
    }
}

/// What is known of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// How it is declared.
    pub options: SpaceOptions,
    /// Versions below it are sealed: what comes later with such a version is stale.
    pub frontier: Option<Version>,
}

impl SpaceInfo {
    /// As a value, for people and for JSON.
    ///
    /// ```
    /// use mainstay_model::SpaceInfo;
    /// let json = SpaceInfo::default().to_value().to_json();
    /// assert!(json.contains("\"groups\":128") && json.contains("\"frontier\":null"));
    /// ```
    pub fn to_value(&self) -> Value {
        let options = self.options;
        let text = |text: Option<String>| text.map_or(Value::Null, Value::from);
        let fields = [
            ("versions", text(options.versions.map(|kind| kind.to_string()))),
            ("ordered", Value::Bool(options.ordered)),
            ("merged", Value::Bool(options.merged)),
            ("groups", Value::Int(i64::from(options.groups))),
            ("frontier", text(self.frontier.map(|frontier| frontier.to_string()))),
        ];
        Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Refuses a version of another kind than the space's; the first one fixes it.
    pub fn check_version(&self, version: Version) -> Result<()> {
        match self.options.versions {
            Some(kind) if kind != version.kind() => {
                let message = format!(
                    "the space has versions of kind {kind}, and {version} is of kind {}",
                    version.kind()
                );
                Err(Error::new(Code::InvalidVersion, message))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a version that no write has here: one of another kind, and the last of all where writes wait, for no
    /// frontier closes it.
    pub fn check_write(&self, version: Version) -> Result<()> {
        self.check_version(version)?;
        if self.options.ordered && version.next().is_none() {
            let message = format!(
                "version {version} is the last of all, and no frontier closes it: what waits with it would wait for ever"
            );
            return Err(Error::new(Code::InvalidVersion, message));
        }
        Ok(())
    }

    /// Whether a version is sealed.
    pub fn is_sealed(&self, version: Version) -> bool {
        self.frontier.is_some_and(|frontier| version < frontier)
    }
}
