//! Cases with their requirements, and the runner. A store that lacks a requirement skips the case.

use super::{Fixture, TestStore};
use std::fmt::Debug;

/// A trait object of stores, such as `dyn RecordStore`, with the cases that its stores must pass.
pub trait Contract: Send + Sync + 'static {
    /// The list of features that a store may lack.
    type Capabilities;
    /// A capability, or a feature of the fixture, that a case can require.
    type Requirement: Copy + Debug + PartialEq + 'static;

    /// The capabilities of the store.
    fn can(&self) -> Self::Capabilities;

    /// The name of the store in messages.
    fn store_name(&self) -> &'static str;

    /// Returns whether this store of the fixture meets a requirement.
    fn meets(&self, requirement: Self::Requirement, fixture: &dyn Fixture<Self>) -> bool;

    /// All registered cases.
    fn cases() -> &'static [StoreCase<Self>];
}

/// A conformance case.
pub struct Case<R: 'static, B> {
    /// File and function, as `file::case`. The area comes first in the names of engine cases.
    pub name: &'static str,
    /// Requirements that the fixture must meet.
    pub requires: &'static [R],
    /// Requirements that the fixture must not meet.
    pub lacks: &'static [R],
    /// The test function, which panics on failure.
    pub body: B,
}

/// A conformance case for the stores of a contract.
pub type StoreCase<S> = Case<<S as Contract>::Requirement, fn(&TestStore<'_, S>)>;

impl<R, B> Case<R, B> {
    /// Returns the case of a table with this name; panics if there is none.
    pub fn named<'c>(name: &str, table: &'c [Case<R, B>]) -> &'c Case<R, B> {
        let case = table.iter().find(|case| case.name == name);
        case.unwrap_or_else(|| panic!("there is no case `{name}`"))
    }
}

impl<S: Contract + ?Sized> Case<S::Requirement, fn(&TestStore<'_, S>)> {
    /// Returns the reason why the store skips this case; `None` if the case runs.
    pub fn skip_reason(&self, fixture: &dyn Fixture<S>) -> Option<String> {
        let test_store = TestStore::of(fixture);
        let store = test_store.store();
        let name = store.store_name();
        let missing = self.requires.iter().find(|needed| !store.meets(**needed, fixture));
        let missing = missing.map(|missing| format!("`{name}` lacks {missing:?}"));
        let present = || self.lacks.iter().find(|lacked| store.meets(**lacked, fixture));
        missing.or_else(|| present().map(|present| format!("`{name}` has {present:?}")))
    }

    /// Runs the case. If the store skips it, prints and returns the reason.
    pub fn run(&self, fixture: &dyn Fixture<S>) -> Option<String> {
        let reason = self.skip_reason(fixture);
        match &reason {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&TestStore::of(fixture)),
        }
        reason
    }
}

/// Runs the case with this name.
pub fn run<S: Contract + ?Sized>(case: &str, fixture: &dyn Fixture<S>) {
    Case::named(case, S::cases()).run(fixture);
}

/// Returns the cases that the store of a fixture skips, with the reasons.
pub fn skipped<S: Contract + ?Sized>(fixture: &dyn Fixture<S>) -> Vec<(&'static str, String)> {
    let cases = S::cases().iter();
    cases.filter_map(|case| Some((case.name, case.skip_reason(fixture)?))).collect()
}
