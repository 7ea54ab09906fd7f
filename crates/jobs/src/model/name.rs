//! Job names, and the keys of their records.
//!
//! ```text
//!   {namespace}state.tasks.{type}.{id}          the type has no dot, so the key is unambiguous
//! ```

use mainstay::{Code, Error, Result};
use std::fmt;

/// Maximum length of a type or id, in bytes.
pub const NAME_LIMIT_BYTES: usize = 200;

/// The type and id of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName {
    task_type: String,
    id: String,
}

impl JobName {
    /// Validates a type and an id: 1 to 200 bytes without white space, control characters, commas and
    /// slashes. A type must not contain a dot either. Fails with `InvalidName`.
    ///
    /// ```
    /// use mainstay_jobs::JobName;
    /// assert_eq!(JobName::new("email-send", "job_17.a")?.to_string(), "email-send/job_17.a");
    /// assert!(JobName::new("email.send", "17").is_err());
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn new(task_type: &str, id: &str) -> Result<JobName> {
        check_type(task_type)?;
        check("id", id)?;
        Ok(JobName { task_type: task_type.to_owned(), id: id.to_owned() })
    }

    /// The job's type.
    pub fn task_type(&self) -> &str {
        &self.task_type
    }

    /// The job's id, unique within its type.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Parses the display form, `type/id`.
    pub(crate) fn parse(text: &str) -> Result<JobName> {
        let (task_type, id) = text.split_once('/').ok_or_else(|| unparsable(text))?;
        JobName::new(task_type, id)
    }

    /// Parses a comma-separated list of names.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<JobName>> {
        text.split(',').filter(|name| !name.is_empty()).map(JobName::parse).collect()
    }
}

/// Joins names with commas.
pub(crate) fn join(names: &[JobName]) -> String {
    names.iter().map(JobName::to_string).collect::<Vec<_>>().join(",")
}

pub(crate) fn check_type(task_type: &str) -> Result<()> {
    check("type", task_type)?;
    if task_type.contains('.') { Err(invalid("type", task_type)) } else { Ok(()) }
}

/// Rejects an empty name.
pub(crate) fn check_not_empty(what: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        let message = format!("the name of {what} is empty: give it one");
        Err(Error::new(Code::InvalidName, message))
    } else {
        Ok(())
    }
}

fn check(what: &str, text: &str) -> Result<()> {
    if (1..=NAME_LIMIT_BYTES).contains(&text.len())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '/'))
    {
        Ok(())
    } else {
        Err(invalid(what, text))
    }
}

#[cold]
fn invalid(what: &str, text: &str) -> Error {
    let text: String = text.chars().take(64).collect();
    let message = format!(
        "`{text}` cannot be the {what} of a job: it has 1 to {NAME_LIMIT_BYTES} bytes without white space, \
         control characters, commas and slashes, and a type has no points"
    );
    Error::new(Code::InvalidName, message)
}

#[cold]
fn unparsable(text: &str) -> Error {
    let message = format!("`{text}` names no job: it has to be a type, a slash and an id");
    Error::new(Code::CorruptData, message)
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.task_type, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_make_keys_or_lists_ambiguous_are_refused() {
        for (task_type, id) in
            [("", "a"), ("a", ""), ("a.b", "c"), ("a/b", "c"), ("a", "b,c"), ("a", "b c")]
        {
            assert_eq!(JobName::new(task_type, id).unwrap_err().code(), Code::InvalidName);
        }
        assert!(JobName::new("a", &"x".repeat(NAME_LIMIT_BYTES + 1)).is_err());
        let names = vec![JobName::new("a", "b.c").unwrap(), JobName::new("d", "e").unwrap()];
        assert_eq!(JobName::parse_all(&join(&names)).unwrap(), names);
        assert_eq!(JobName::parse_all("").unwrap(), []);
    }
}
