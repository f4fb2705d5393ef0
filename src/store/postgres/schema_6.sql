-- A turn that waits for its tools is recalled, so whoever holds it in memory is told when it is removed.
DROP TRIGGER turn_removed ON turn;
CREATE TRIGGER turn_removed BEFORE DELETE ON turn FOR EACH ROW
    WHEN ((old.status IN ('complete', 'partial') OR old.answered_at IS NOT NULL) AND old.superseded = 0)
    EXECUTE FUNCTION turn_removed();
