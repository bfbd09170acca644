#!/bin/sh
# The project's test: the lunch receipt adds up to 770.
got=$(sh src/total.sh receipts/lunch.txt)
if [ "$got" = 770 ]; then
  echo "ok: the total is $got"
else
  echo "FAILED: the total is $got, not 770"
  exit 1
fi
