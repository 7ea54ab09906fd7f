//! Space options and metadata of keyed state.

use super::{GROUPS_DEFAULT, GROUPS_LIMIT, Version, VersionKind};
use crate::{Code, Error, Result, Value};
use serde::{Deserialize, Serialize};

/// The options of a space. The first write declares an undeclared space with the defaults: the newest version
/// wins, and the first version fixes the version kind.
///
/// ```
/// use mainstay_model::{SpaceOptions, VersionKind};
/// let options = SpaceOptions::default().versions(VersionKind::Time).ordered();
/// assert_eq!(options.groups, 128);
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceOptions {
    /// The version kind; `None` if the first write fixes it.
    pub versions: Option<VersionKind>,
    /// True if writes wait until their version is sealed, and are then applied in version order.
    pub ordered: bool,
    /// True if a merge function combines puts with the existing state. The function belongs to the user, and
    /// puts are not possible without it.
    pub merged: bool,
    /// The number of key groups. It never changes.
    pub groups: u32,
}

impl Default for SpaceOptions {
    fn default() -> SpaceOptions {
        SpaceOptions { versions: None, ordered: false, merged: false, groups: GROUPS_DEFAULT }
    }
}

impl SpaceOptions {
    /// Fixes the version kind.
    #[must_use]
    pub fn versions(mut self, versions: VersionKind) -> SpaceOptions {
        self.versions = Some(versions);
        self
    }

    /// Makes writes wait until their version is sealed, and applies them in version order.
    #[must_use]
    pub fn ordered(mut self) -> SpaceOptions {
        self.ordered = true;
        self
    }

    /// Declares that a merge function combines puts with the existing state.
    #[must_use]
    pub fn merged(mut self) -> SpaceOptions {
        self.merged = true;
        self
    }

    /// Sets the number of key groups.
    #[must_use]
    pub fn groups(mut self, groups: u32) -> SpaceOptions {
        self.groups = groups;
        self
    }

    /// Rejects invalid options.
    pub fn check(&self) -> Result<()> {
        if (1..=GROUPS_LIMIT).contains(&self.groups) {
            return Ok(());
        }
        let message = format!("keys belong to 1 to {GROUPS_LIMIT} groups, not {}", self.groups);
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Returns whether a space with these options satisfies the requested ones.
    pub fn is_as(&self, asked: &SpaceOptions) -> bool {
        let versions = asked.versions.is_none() || asked.versions == self.versions;
        versions
            && SpaceOptions { versions: None, ..*self } == SpaceOptions { versions: None, ..*asked }
    }
}

/// The options and the frontier of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// The options.
    pub options: SpaceOptions,
    /// Versions below the frontier are sealed. A later write with such a version is stale.
    pub frontier: Option<Version>,
}

impl SpaceInfo {
    /// Converts to a value for display and JSON.
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

    /// Rejects a version of another kind than the space's. The first version fixes the kind.
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

    /// Rejects a version that no write can have here: one of another kind, and in an ordered space also the
    /// highest one, because no frontier can seal it.
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

    /// Returns whether a version is sealed.
    pub fn is_sealed(&self, version: Version) -> bool {
        self.frontier.is_some_and(|frontier| version < frontier)
    }
}
