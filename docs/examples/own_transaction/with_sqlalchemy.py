"""Place an order and start the run that packs it, in one transaction of SQLAlchemy."""

import os
import sys

from sqlalchemy import create_engine, text

from agents.runner import Runner

engine = create_engine(os.environ["CALLBOARD_DATABASE_URL"])
runner = Runner.open(inline=False)


def place_order(item: str) -> str:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS orders (item TEXT, run_id TEXT)"))
        run = runner.run(f"Pack one {item}.", "assistant", connection=connection)
        connection.execute(text("INSERT INTO orders VALUES (:item, :run)"), {"item": item, "run": run.run_id})
        if item == "nothing":
            raise ValueError("nothing cannot be ordered")  # the order and the run are gone
    return run.run_id


if __name__ == "__main__":
    print(place_order(sys.argv[1]))
    runner.close()
