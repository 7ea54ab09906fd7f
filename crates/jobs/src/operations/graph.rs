//! Dependency graphs of jobs: validation before anything is written.

use crate::failure;
use crate::model::name::JobName;
use crate::operations::submit::Submission;
use mainstay::{Code, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Returns each job with its dependencies. Rejects duplicates and cycles.
pub(crate) fn check(submissions: &[Submission]) -> Result<Vec<(JobName, Vec<JobName>)>> {
    if submissions.is_empty() {
        let message = "no job was given: a graph has at least one";
        return Err(Error::new(Code::EmptyGraph, message));
    }
    let graph = submissions
        .iter()
        .map(|submission| Ok((submission.name()?, submission.dependencies()?)))
        .collect::<Result<Vec<_>>>()?;
    let mut names = BTreeSet::new();
    for (name, depends_on) in &graph {
        if !names.insert(name) {
            return Err(failure::exists(name));
        }
        check_dependencies(name, depends_on)?;
    }
    check_cycles(&graph)?;
    Ok(graph)
}

fn check_dependencies(name: &JobName, depends_on: &[JobName]) -> Result<()> {
    if depends_on.contains(name) {
        let message = format!("job {name} depends on itself: it would never run");
        return Err(Error::new(Code::SelfDependency, message));
    }
    let mut unique = BTreeSet::new();
    match depends_on.iter().find(|dependency| !unique.insert(*dependency)) {
        None => Ok(()),
        Some(duplicate) => {
            let message =
                format!("job {name} names its dependency {duplicate} twice: once is enough");
            Err(Error::new(Code::DuplicateDependency, message))
        }
    }
}

/// Returns the dependents of each job within the graph. Every job has an entry.
pub(crate) fn dependents(graph: &[(JobName, Vec<JobName>)]) -> BTreeMap<&JobName, Vec<JobName>> {
    dependents_of(graph.iter().map(|(name, _)| name), graph)
}

/// Returns the dependents of the given jobs within a graph. Each of these jobs has an entry.
pub(crate) fn dependents_of<'n>(
    names: impl Iterator<Item = &'n JobName>,
    graph: &[(JobName, Vec<JobName>)],
) -> BTreeMap<&'n JobName, Vec<JobName>> {
    let mut all: BTreeMap<_, Vec<JobName>> = names.map(|name| (name, Vec::new())).collect();
    for (name, depends_on) in graph {
        for dependency in depends_on {
            if let Some(dependents) = all.get_mut(dependency) {
                dependents.push(name.clone());
            }
        }
    }
    all
}

/// Cycle detection (topological sort): repeatedly removes jobs without open dependencies. Any remaining job
/// is on a cycle.
fn check_cycles(graph: &[(JobName, Vec<JobName>)]) -> Result<()> {
    let dependents = dependents(graph);
    let is_in_graph = |name: &&JobName| dependents.contains_key(*name);
    let mut open_counts: BTreeMap<&JobName, usize> = graph
        .iter()
        .map(|(name, depends_on)| (name, depends_on.iter().filter(is_in_graph).count()))
        .collect();
    let mut ready: Vec<&JobName> =
        open_counts.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = ready.pop() {
        open_counts.remove(name);
        for dependent in dependents.get(name).into_iter().flatten() {
            if let Some(count) = open_counts.get_mut(dependent) {
                *count -= 1;
                if *count == 0
                    && let Some((dependent, _)) = dependents.get_key_value(dependent)
                {
                    ready.push(*dependent);
                }
            }
        }
    }
    match open_counts.keys().next() {
        None => Ok(()),
        Some(name) => {
            let message = format!("job {name} waits for itself by way of others: break the circle");
            Err(Error::new(Code::DependencyCycle, message))
        }
    }
}
