//! What a tenant's vectors have in common.

use super::super::connect::meaning;
use super::super::episode::floats;
use super::super::session::{rows_max, send};
use super::super::sql::{Connection, OptionalExtension, Row, params};
use super::HERE;
use super::fill::written;
use crate::store::StoreError;

/// How many vectors tell what all have in common.
const TOLD_BY: usize = 2_000;

/// What the vectors of one embedder have in common.
pub(super) struct Centre(Vec<f32>);

impl Centre {
    /// The one that is known, or one that is from now on.
    pub(super) fn of(db: &Connection, embedder: &str) -> Result<Self, StoreError> {
        if let Some(known) = known(db, embedder)? {
            return Ok(Self(known));
        }
        let mean = mean(&some(db, embedder)?);
        let sql = "INSERT INTO knowledge_centre (embedder, vector) VALUES (?1, ?2::text::vector)
                   ON CONFLICT (home, embedder) DO NOTHING";
        send(db, sql, params![embedder, written(&mean)])?;
        // As it was written, which is not to the last bit what was computed.
        Ok(Self(known(db, embedder)?.unwrap_or(mean)))
    }

    /// A vector without it. One of another length has nothing in common with it.
    pub(super) fn taken_from(&self, mut vector: Vec<f32>) -> Vec<f32> {
        if self.0.len() == vector.len() {
            vector.iter_mut().zip(&self.0).for_each(|(value, common)| *value -= common);
        }
        vector
    }
}

/// What every product of a question with a vector of this embedder loses by it.
pub(super) fn lost(db: &Connection, embedder: &str, dimensions: usize, question: &str) -> Result<f32, StoreError> {
    let sql = format!(
        "SELECT -(vector::vector({dimensions}) <#> ?2::text::vector({dimensions})) FROM knowledge_centre
         WHERE {HERE} AND embedder = ?1 AND vector_dims(vector) = {dimensions}"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let lost = statement.query_row(params![embedder, question], |row| row.get::<_, f64>(0)).optional();
    Ok(lost.map_err(|error| meaning(&error))?.unwrap_or(0.0) as f32)
}

fn known(db: &Connection, embedder: &str) -> Result<Option<Vec<f32>>, StoreError> {
    let sql = format!("SELECT vector::text FROM knowledge_centre WHERE {HERE} AND embedder = ?1");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let text = statement.query_row([embedder], |row| row.get::<_, String>(0)).optional();
    let text = text.map_err(|error| meaning(&error))?;
    Ok(text.map(|text| text.trim_matches(['[', ']']).split(',').filter_map(|value| value.parse().ok()).collect()))
}

fn some(db: &Connection, embedder: &str) -> Result<Vec<Vec<f32>>, StoreError> {
    let sql = format!("SELECT vector FROM passage WHERE {HERE} AND embedder = ?1 LIMIT ?2");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok(row.get::<_, Option<Vec<u8>>>(0)?.map(|bytes| floats(&bytes)));
    let rows = statement.query_map(params![embedder, rows_max(TOLD_BY)], read).map_err(|error| meaning(&error))?;
    rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// The mean of the vectors that are as long as the first.
fn mean(vectors: &[Vec<f32>]) -> Vec<f32> {
    let mut sum = vec![0.0_f64; vectors.first().map_or(0, Vec::len)];
    let alike: Vec<&Vec<f32>> = vectors.iter().filter(|vector| vector.len() == sum.len()).collect();
    for vector in &alike {
        sum.iter_mut().zip(*vector).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sum.into_iter().map(|sum| (sum / alike.len() as f64) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_vectors_of_one_length() {
        assert_eq!(mean(&[]), Vec::<f32>::new());
        assert_eq!(mean(&[vec![1.0, 2.0], vec![9.0], vec![3.0, 0.0]]), [2.0, 1.0]);
        let centre = Centre(vec![2.0, 1.0]);
        assert_eq!((centre.taken_from(vec![1.0, 2.0]), centre.taken_from(vec![7.0])), (vec![-1.0, 1.0], vec![7.0]));
    }
}
