#!/bin/sh
# Prints the total of a receipt, in cents.
total=0
while read -r name price; do
  total=$((total + 1))
done < "$1"
echo "$total"
